// What a server says of something. Long text is cut, and says so: what is not shown may be what matters.

import { count } from "../format.js";
import { cutOf } from "../cut.js";
import { html, useState } from "../html.js";

/** @param {{text: string}} given */
export function Description({ text }) {
  const [isWhole, setWhole] = useState(false);
  const cut = cutOf(text);
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
