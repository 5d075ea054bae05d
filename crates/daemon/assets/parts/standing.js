// Standing answers: calls that always run because the user said so, and a button that makes Toolrack ask again.

import { call, get } from "../api.js";
import { ago, moment } from "../format.js";
import { html } from "../html.js";
import { may } from "../me.js";
import { answersTurn } from "../world.js";
import { useAction, useLoaded } from "./loaded.js";
import { Trouble } from "./problem.js";
import { say } from "./say.js";

/** Shows nothing if there is no standing answer. */
export function Standing() {
  const loaded = useLoaded((signal) => get("/api/v1/answers", signal), [answersTurn.value]);
  const answers = /** @type {Api.StandingAnswer[]} */ (loaded.data?.answers ?? []);
  const forget = useAction(async (/** @type {Api.StandingAnswer} */ answer) => {
    const which = new URLSearchParams({ server: answer.server, tool: answer.tool });
    await call(`/api/v1/answers?${which}`, { method: "DELETE" });
    say(`You are asked about ${answer.server}/${answer.tool} again`);
    loaded.again();
  });
  if (answers.length === 0) return null;
  return html`
    <section class="panel" data-testid="standing">
      <h2>Runs without a question</h2>
      <p class="quiet-text">A user allowed these calls. If a tool changes, Toolrack asks again.</p>
      <${Trouble} error=${forget.error} />
      <ul class="rows">
        ${answers.map(
          (answer) => html`
            <li key=${`${answer.server}/${answer.tool}/${answer.definition}/${answer.member}/${answer.lasting}`} data-testid="standing-answer">
              <div>
                <span class="server-part">${answer.server}/</span><strong>${answer.tool}</strong>
                ${answer.member && html` <span class="quiet-text">for calls of ${answer.member}</span>`}
                ${answer.lasting === "session" && html` <span class="quiet-text">until the daemon ends</span>`}
              </div>
              ${answer.at && html`<time class="quiet-text" datetime=${answer.at} title=${moment(answer.at)}>${ago(answer.at)}</time>`}
              ${
                (answer.member || may("operate")) &&
                html`<button
                  type="button"
                  disabled=${forget.busy}
                  onClick=${() => forget.run(answer)}
                  aria-label=${`Ask about ${answer.server}/${answer.tool} again`}
                  data-testid="ask-again"
                >
                  Ask again
                </button>`
              }
            </li>
          `,
        )}
      </ul>
    </section>
  `;
}
