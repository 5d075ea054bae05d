// The exact command or address of an entry, and its changes since the user agreed.

import { html } from "../html.js";
import { linesOf } from "../proposal-lines.js";

/** @param {{config: Api.Entry, before: Api.Entry | null, folder: string}} given */
export function Proposal({ config, before, folder }) {
  return html`
    <dl class="proposal" data-testid="proposal">
      ${linesOf(config, before, folder).map(
        ({ label, value, before: then }) => html`
          <div class=${then === undefined ? "" : "changed"} data-status=${then === undefined ? "same" : "changed"}>
            <dt>${label}${then !== undefined && html` <span class="mark warn">changed</span>`}</dt>
            <dd>
              <code>${value}</code>
              ${then !== undefined && html`<p class="was">${then === null ? "was not there before" : html`before: <code>${then}</code>`}</p>`}
            </dd>
          </div>
        `,
      )}
    </dl>
  `;
}
