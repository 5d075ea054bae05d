// A description by a server. A long one is cut, with a note, because the important part may be in the rest.

import { count } from "../format.js";
import { excerptOf } from "../excerpt.js";
import { html, useState } from "../html.js";

/** @param {{text: string}} given */
export function Description({ text }) {
  const [isWhole, setWhole] = useState(false);
  const cut = excerptOf(text);
  if (cut === null) return html`<p class="description" data-testid="description">${text}</p>`;
  return html`
    <div class="description-cut">
      <p class="description" data-testid="description">${isWhole ? text : `${cut}…`}</p>
      <button
        type="button"
        class="small"
        aria-expanded=${isWhole}
        onClick=${() => setWhole(!isWhole)}
        data-testid="description-more"
      >
        ${isWhole ? "Show less" : `Cut here: show all ${count(text.length)} characters`}
      </button>
    </div>
  `;
}
