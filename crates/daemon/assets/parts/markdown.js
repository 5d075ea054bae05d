// Shows parsed Markdown as nodes. Its text becomes text nodes; the parser has already decided about its links.

import { Fragment, html, useMemo } from "../html.js";
import { blocksOf } from "../markdown.js";
import { CopyButton } from "./copy.js";
import { Text } from "./text.js";

/** The level of the first heading in an answer, below the headings of the page. */
const BELOW = 2;

/** Shows the text of a model. @param {{text: string}} given */
export function Markdown({ text }) {
  return useMemo(() => html`<${Blocks} blocks=${blocksOf(text)} />`, [text]);
}

/** Shows Markdown that is already parsed. @param {{blocks: import("../markdown.js").Block[]}} given */
export function Blocks({ blocks: list }) {
  return html`<div class="markdown" data-testid="markdown">${blocks(list)}</div>`;
}

/** @param {import("../markdown.js").Block[]} list */
const blocks = (list) => list.map((block) => html`<${Block} block=${block} />`);

/** @param {{block: import("../markdown.js").Block}} given */
function Block({ block }) {
  switch (block.type) {
    case "paragraph":
      return html`<p>${spans(block.spans)}</p>`;
    case "heading":
      return html`<${Heading} block=${block} />`;
    case "code":
      return html`<${Code} language=${block.language} text=${block.text} />`;
    case "list":
      return block.ordered
        ? html`<ol start=${block.start}>
            ${items(block.items)}
          </ol>`
        : html`<ul>
            ${items(block.items)}
          </ul>`;
    case "quote":
      return html`<blockquote>${blocks(block.blocks)}</blockquote>`;
    case "table":
      return html`<${Table} head=${block.head} rows=${block.rows} />`;
    case "rule":
      return html`<hr />`;
  }
}

/** Shows a heading. One with an anchor is a heading of the page itself. @param {{block: import("../markdown.js").Block & {type: "heading"}}} given */
function Heading({ block: { level, spans: inner, anchor } }) {
  if (!anchor) return html`<${`h${Math.min(6, level + BELOW)}`}>${spans(inner)}<//>`;
  return html`<${`h${level}`} id=${anchor.id} tabindex="-1"
    >${spans(inner)}${" "}<a class="anchor" href=${anchor.address} aria-label="Link to this heading">#</a><//
  >`;
}

/** @param {import("../markdown.js").Block[][]} list */
const items = (list) => list.map((inner) => html`<li>${blocks(inner)}</li>`);

/** @param {{language: string, text: string}} given */
function Code({ language, text }) {
  return html`
    <figure class="code-block" data-testid="code-block">
      <figcaption><span>${language || "text"}</span><${CopyButton} text=${text} class="quiet small" /></figcaption>
      <${Text} text=${text} label=${language ? `Code, ${language}` : "Code"} testid="code" />
    </figure>
  `;
}

/** @param {{head: Span[][], rows: Span[][][]}} given */
function Table({ head, rows }) {
  return html`
    <div class="table" tabindex="0" role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            ${head.map((cell) => html`<th scope="col">${spans(cell)}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (row) =>
              html`<tr>
                ${row.map((cell) => html`<td>${spans(cell)}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
  `;
}

/** @typedef {import("../markdown.js").Span} Span */

/** @param {Span[]} list @returns {unknown[]} */
const spans = (list) => list.map((span) => html`<${One} span=${span} />`);

/** @param {{span: Span}} given */
function One({ span }) {
  switch (span.type) {
    case "text":
      return html`<${Fragment}>${span.text}<//>`;
    case "code":
      return html`<code>${span.text}</code>`;
    case "strong":
      return html`<strong>${spans(span.spans)}</strong>`;
    case "emphasis":
      return html`<em>${spans(span.spans)}</em>`;
    case "struck":
      return html`<s>${spans(span.spans)}</s>`;
    case "link":
      // A link to a part of the dashboard opens in the same tab.
      if (span.address.startsWith("#")) return html`<a href=${span.address}>${spans(span.spans)}</a>`;
      return html`<a href=${span.address} title=${span.address} target="_blank" rel="noopener noreferrer"
        >${spans(span.spans)}</a
      >`;
    case "break":
      return html`<br />`;
  }
}
