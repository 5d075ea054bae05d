// A button with a menu of further actions. The menu closes after a choice, with Escape, and when the focus leaves it. The focus then
// returns to the button, also from a dialog that an action opens.

import { html, useRef, useState } from "../html.js";

/** @param {{label: string, children?: unknown, testid?: string}} given */
export function Menu({ label, children, testid = "menu" }) {
  const details = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  // The content is made when the menu is first opened: a page has many menus, and most are never opened.
  const [wasOpen, setWasOpen] = useState(false);
  const close = () => {
    if (details.current) details.current.open = false;
  };
  const closeHere = () => {
    close();
    details.current?.querySelector("summary")?.focus();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !details.current?.open) return;
    closeHere();
  };
  const onFocusOut = (/** @type {FocusEvent} */ event) => {
    if (event.relatedTarget instanceof Node && !details.current?.contains(event.relatedTarget)) close();
  };
  // Before the action, so that a dialog which it opens finds the focus at the button.
  const onClick = (/** @type {MouseEvent} */ event) => {
    if (event.target instanceof Element && event.target.closest(".menu-items button, .menu-items a")) closeHere();
  };
  return html`
    <details
      class="menu"
      ref=${details}
      onKeyDown=${onKeyDown}
      onFocusOut=${onFocusOut}
      onClickCapture=${onClick}
      onToggle=${() => setWasOpen(true)}
      data-testid=${testid}
    >
      <summary aria-label=${label} class="button">⋯</summary>
      <div class="menu-items">${wasOpen && children}</div>
    </details>
  `;
}
