// The questions that wait for an answer.

import { html } from "../html.js";
import { Head } from "../parts/page.js";
import { Questions } from "../parts/questions.js";
import { Standing } from "../parts/standing.js";
import { Empty } from "../parts/text.js";
import { questions } from "../world.js";

export function Approvals() {
  return html`
    <${Head} title="Approvals" help="approvals" about="Calls that need your approval, and questions from servers. Those of agents appear here, too." />
    <${Questions} waiting=${questions.value}>
      <${Empty} title="Nothing waits for you">
        <p>When a tool needs your approval, it appears here at once, and the title of this tab shows the count.</p>
        <p><a href="#/tools">Try a tool</a></p><//>
    <//>
    <${Standing} />
  `;
}
