// What waits for an answer.

import { html } from "../html.js";
import { Head } from "../parts/page.js";
import { Questions } from "../parts/questions.js";
import { Standing } from "../parts/standing.js";
import { Empty } from "../parts/text.js";
import { questions } from "../world.js";

export function Approvals() {
  return html`
    <${Head} title="Approvals" help="approvals" about="Calls that want your word, and questions that servers ask while they work. Those of agents are here too." />
    <${Questions} waiting=${questions.value}>
      <${Empty} title="Nothing waits for you">
        <p>When a tool needs your approval, it appears here at once, and the count stands in the title of this tab.</p>
        <p><a href="#/tools">Try a tool</a></p><//>
    <//>
    <${Standing} />
  `;
}
