// The guide: the list of its pages, one page, or the hits of a search.

import { guide } from "../guide.js";
import { found } from "../help.js";
import { html, useLayoutEffect, useMemo } from "../html.js";
import { useLoaded } from "../parts/loaded.js";
import { Blocks } from "../parts/markdown.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { Search } from "../parts/search.js";
import { Empty, Waiting } from "../parts/text.js";
import { hashOf } from "../router.js";

/**
 * @typedef {import("../help.js").Page} Page
 * @typedef {import("../guide.js").Guide} Guide
 */

const UP = { href: hashOf(["help"]), label: "Help" };

/** @param {{id?: string, anchor?: string, query: Record<string, string>}} given */
export function Help({ id, anchor, query }) {
  const loaded = useLoaded(guide, []);
  const known = /** @type {Guide | null} */ (loaded.data);
  const page = (id && known?.page(id)) || null;
  const { q = "" } = query;
  return html`
    <${Head} title=${headline(id, known, page)} up=${id ? UP : null} />
    <div class="toolbar" role="search">
      <${Search} key=${`${id}/${anchor}`} label="Search the help" placeholder="Search the help" />
    </div>
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!known && !loaded.error && html`<${Waiting} />`}
    ${known && (q ? html`<${Hits} guide=${known} search=${q} />` : html`<${Content} id=${id} guide=${known} page=${page} anchor=${anchor} />`)}
  `;
}

/** @param {string | undefined} id @param {Guide | null} known @param {Page | null} page */
function headline(id, known, page) {
  if (!id) return "Help";
  return page?.title ?? (known ? "There is no such page" : "Help");
}

/** @param {{id?: string, guide: Guide, page: Page | null, anchor?: string}} given */
function Content({ id, guide: known, page, anchor }) {
  if (page) return html`<${Shown} key=${page.id} page=${page} anchor=${anchor} around=${known.around(page.id)} />`;
  return html`
    ${id && html`<p class="quiet-text">These are all pages of the guide.</p>`}
    <ul class="rows panel help-list" data-testid="help-list">
      ${known.pages().map(
        ({ id: one, title, about }) => html`
          <li>
            <div>
              <a href=${hashOf(["help", one])} data-testid="help-page" data-name=${one}>${title}</a>
              <p class="quiet-text">${about}</p>
            </div>
          </li>
        `,
      )}
    </ul>
  `;
}

/** One page. @param {{page: Page, anchor?: string, around: (Page | null)[]}} given */
function Shown({ page, anchor, around: [before, after] }) {
  // Before the browser paints, because the scroll position belongs to the page before.
  useLayoutEffect(() => {
    const heading = anchor ? document.getElementById(anchor) : null;
    if (!heading) return scrollTo({ top: 0 });
    heading.scrollIntoView();
    heading.focus({ preventScroll: true });
  }, [anchor]);
  return html`
    <article class="guide" data-testid="guide" data-name=${page.id}>
      <${Contents} page=${page} />
      <${Blocks} blocks=${page.blocks} />
    </article>
    <nav class="actions guide-ways" aria-label="Other pages">
      ${before && html`<a class="button" href=${hashOf(["help", before.id])} data-testid="help-before"><span aria-hidden="true">‹</span>${before.title}</a>`}
      ${after && html`<a class="button" href=${hashOf(["help", after.id])} data-testid="help-after">${after.title}<span aria-hidden="true">›</span></a>`}
    </nav>
  `;
}

/** The list of a page's headings, except for a short page. @param {{page: Page}} given */
function Contents({ page }) {
  const chapters = page.sections.filter(({ level }) => level === 2);
  const shown = chapters.length < 3 ? page.sections.filter(({ level }) => level > 1) : chapters;
  if (shown.length < 3) return null;
  return html`
    <nav class="guide-contents" aria-label="On this page">
      <ul>
        ${shown.map(({ title, anchor }) => html`<li><a href=${hashOf(["help", page.id, anchor ?? ""])}>${title}</a></li>`)}
      </ul>
    </nav>
  `;
}

/** @param {{guide: Guide, search: string}} given */
function Hits({ guide: known, search }) {
  const hits = useMemo(() => found(known.pages(), search), [known, search]);
  if (hits.length === 0)
    return html`<${Empty} title="Nothing found"><p>Try other words, or <a href="#/help">the list of pages</a>.</p><//>`;
  return html`
    <ol class="rows panel help-list" data-testid="help-hits">
      ${hits.map(
        ({ page, section, excerpt }) => html`
          <li>
            <div>
              <a href=${hashOf(["help", page.id, ...(section.anchor ? [section.anchor] : [])])} data-testid="help-hit">
                ${section.anchor ? `${page.title} › ${section.title}` : page.title}
              </a>
              <p class="quiet-text">
                ${excerpt.map(({ text, isHit }) => (isHit ? html`<mark>${text}</mark>` : text))}
              </p>
            </div>
          </li>
        `,
      )}
    </ol>
  `;
}
