// What waits for an answer.

import { html } from "../html.js";
import { Head } from "../parts/page.js";
import { Question } from "../parts/question.js";
import { Standing } from "../parts/standing.js";
import { Empty } from "../parts/text.js";
import { questions } from "../world.js";

export function Approvals() {
  const waiting = questions.value;
  return html`
    <${Head} title="Approvals" about="Calls that want your word, and questions that servers ask while they work. Those of agents are here too." />
    ${
      waiting.length === 0
        ? html`<${Empty} title="Nothing waits for you">
            <p>
              When a tool needs your approval, it appears here at once, and the count stands in the title of this tab.
            </p>
            <p><a href="#/tools">Try a tool</a></p><//>
          `
        : html`<ul class="questions" data-testid="questions">
            ${waiting.map((question) => html`<li key=${question.id}><${Question} question=${question} /></li>`)}
          </ul>`
    }
    <${Standing} />
  `;
}
