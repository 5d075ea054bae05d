// A search whose words stand in the address, so that what was found can be linked and gone back to.

import { html, useEffect, useState } from "../html.js";
import { place, refine } from "../router.js";
import { onText } from "./input.js";

/** How long typing must pause before it is searched. In ms. */
const PAUSE = 150;

/** @param {{label: string, placeholder: string}} given */
export function Search({ label, placeholder }) {
  const [typed, setTyped] = useState(place.peek().query.q ?? "");
  useEffect(() => {
    const timer = setTimeout(() => {
      const { q = "", after, ...others } = place.peek().query;
      // Other words begin at the first page again.
      if (typed !== q) refine({ ...others, q: typed });
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<label class="search">
    <span class="hidden">${label}</span>
    <input type="search" placeholder=${placeholder} value=${typed} onInput=${onText(setTyped)} data-testid="search"
  /></label>`;
}
