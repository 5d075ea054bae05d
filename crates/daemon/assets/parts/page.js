// The head of a page.

import { helpAbout } from "../help-links.js";
import { html, useEffect, useRef } from "../html.js";
import { moves } from "../router.js";

/**
 * @param {{title: string, children?: unknown, about?: unknown, up?: {href: string, label: string} | null, help?: Topic | null}} given
 *   `children` are the actions of the page, beside the title; `help` is the topic of the guide that explains it
 */
export function Head({ title, children, about, up = null, help = null }) {
  const heading = useRef(/** @type {HTMLHeadingElement | null} */ (null));
  // The heading takes the focus: a screen reader reads the title of the new page, and the keyboard continues from here.
  useEffect(() => {
    const { activeElement } = document;
    if (moves.peek() > 0 && (activeElement === document.body || activeElement?.closest("nav")))
      heading.current?.focus({ preventScroll: true });
  }, [title]);
  return html`
    <header class="page-head">
      ${up && html`<p class="up"><a href=${up.href}>‹ ${up.label}</a></p>`}
      <div class="title-row">
        <h1 tabindex="-1" ref=${heading}>${title}</h1>
        ${(children || help) && html`<div class="actions">${children}${help && html`<${HelpLink} about=${help} />`}</div>`}
      </div>
      ${about && html`<p class="about">${about}</p>`}
    </header>
  `;
}

/** @typedef {import("../help-links.js").Topic} Topic */

/** A link to the part of the guide about a topic. @param {{about: Topic}} given */
export function HelpLink({ about }) {
  return html`<a class="help-link" href=${helpAbout(about)} data-testid="help-link" data-name=${about}
    >Help<span class="hidden"> with ${about}</span></a
  >`;
}

/**
 * Parts of a page, each with an address of its own.
 * @param {{label: string, tabs: {href: string, label: string, count?: number | null, current: boolean, id: string}[]}} given
 */
export function Tabs({ label, tabs }) {
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  const current = tabs.find((tab) => tab.current)?.id;
  // On a narrow screen the tabs are a strip, and the current one may be outside of its visible part.
  useEffect(() => {
    const strip = nav.current;
    const tab = /** @type {HTMLElement | null} */ (strip?.querySelector("[aria-current]"));
    if (strip && tab) strip.scrollLeft = tab.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
  }, [current]);
  return html`
    <nav class="tabs" aria-label=${label} ref=${nav}>
      ${tabs.map(
        (tab) => html`
          <a href=${tab.href} aria-current=${tab.current ? "page" : undefined} data-testid=${`tab-${tab.id}`}>
            ${tab.label}${tab.count !== null && tab.count !== undefined && html` <span class="count">${tab.count}</span>`}
          </a>
        `,
      )}
    </nav>
  `;
}
