// A decision about exactly what the page shows: the button that makes it, and what to do when that has changed meanwhile.

import { post } from "../api.js";
import { html } from "../html.js";
import { refresh } from "../world.js";
import { useAction } from "./loaded.js";
import { Trouble } from "./problem.js";
import { say } from "./say.js";

/** Sends a decision of the user about trust, and says what it did. @param {string} path @param {object} body @param {string} said */
export async function decide(path, body, said) {
  await post(path, body);
  say(said);
  refresh("trust", "servers", "overview");
}

/** The same as an action of a button. @type {(...given: Parameters<typeof decide>) => ReturnType<typeof useAction>} */
export const useDecision = (...given) => useAction(() => decide(...given));

/** @param {{yes: ReturnType<typeof useAction>, no?: ReturnType<typeof useAction>, label: string, testid: string}} given */
export function Decision({ yes, no, label, testid }) {
  const error = yes.error ?? no?.error;
  const isStale = /** @type {any} */ (error)?.status === 409;
  return html`
    <${Trouble} error=${error} again=${isStale ? () => refresh("trust") : null} />
    <p class="actions">
      <button type="button" class="primary" disabled=${yes.busy} onClick=${() => yes.run()} data-testid=${testid}>
        ${label}
      </button>
      ${no && html`<button type="button" disabled=${no.busy} onClick=${() => no.run()} data-testid="refuse">Refuse</button>`}
    </p>
  `;
}
