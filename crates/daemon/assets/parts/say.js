// Short notices about finished actions, which are shown for a while and read out by screen readers.

import { html, signal } from "../html.js";

const said = signal(/** @type {{text: string, key: number} | null} */ (null));

/** How long a notice is shown. In ms. */
const STAY = 4000;

let key = 0;

/** @param {string} text */
export function say(text) {
  key += 1;
  const mine = key;
  said.value = { text, key };
  setTimeout(() => {
    if (said.peek()?.key === mine) said.value = null;
  }, STAY);
}

export function Said() {
  return html`<div class="said" role="status" aria-live="polite" data-testid="said">
    ${said.value && html`<p key=${said.value.key}>${said.value.text}</p>`}
  </div>`;
}
