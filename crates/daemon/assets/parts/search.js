// A search whose words are part of the address, so that the user can link to the hits and return to them.

import { html, useEffect, useState } from "../html.js";
import { place, refine } from "../router.js";
import { onText } from "./input.js";

/** How long the user must pause typing before the search begins. In ms. */
const PAUSE = 150;

/** @param {{label: string, placeholder: string}} given */
export function Search({ label, placeholder }) {
  const [typed, setTyped] = useState(place.peek().query.q ?? "");
  useEffect(() => {
    const timer = setTimeout(() => {
      const { q = "", after, ...others } = place.peek().query;
      // A new search starts at its first page.
      if (typed !== q) refine({ ...others, q: typed });
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<label class="search">
    <span class="hidden">${label}</span>
    <input type="search" placeholder=${placeholder} value=${typed} onInput=${onText(setTyped)} data-testid="search"
  /></label>`;
}
