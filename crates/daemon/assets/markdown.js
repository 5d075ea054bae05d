// Parses the Markdown of models and of the guide into a tree of plain values, with the library marked. Nothing in the tree is
// markup: the page makes its nodes from it, and HTML stays text. Pure.

import { webAddress } from "./links.js";
import { Lexer } from "./vendor/marked.js";

/**
 * @typedef {{type: "text", text: string}
 *   | {type: "code", text: string}
 *   | {type: "strong" | "emphasis" | "struck", spans: Span[]}
 *   | {type: "link", address: string, spans: Span[]}
 *   | {type: "break"}} Span
 * @typedef {{type: "paragraph", spans: Span[]}
 *   | {type: "heading", level: number, spans: Span[], anchor?: Anchor}
 *   | {type: "list", ordered: boolean, start: number, items: Block[][]}
 *   | {type: "code", language: string, text: string}
 *   | {type: "quote", blocks: Block[]}
 *   | {type: "table", head: Span[][], rows: Span[][][]}
 *   | {type: "rule"}} Block
 * @typedef {{id: string, address: string}} Anchor the id of a heading, and the address that leads to it
 * @typedef {(written: string) => string | null} Leads returns the target of a link; null for none
 * @typedef {any} Token a token of marked
 */

/** How deep lists, quotes and marks may nest; deeper ones are shown as text. */
const DEEPEST = 8;

/** A longer paragraph is shown as text, because the time to parse its marks grows with the square of its length. */
const LONGEST = 20_000;

/** marked's lexer within bounds: it calls itself for each level of nesting. */
class Bounded extends Lexer {
  #depth = 0;

  /** @param {string} source @param {Token[]} [tokens] @param {boolean} [clipped] @returns {any} */
  blockTokens(source, tokens = [], clipped = false) {
    if (this.#depth >= DEEPEST) return this.#plain(source, tokens, "paragraph");
    this.#depth += 1;
    const read = super.blockTokens(source, tokens, clipped);
    this.#depth -= 1;
    return read;
  }

  /** @param {string} source @param {Token[]} [tokens] @returns {any} */
  inlineTokens(source, tokens = []) {
    if (this.#depth >= DEEPEST || source.length > LONGEST) return this.#plain(source, tokens, "text");
    this.#depth += 1;
    const read = super.inlineTokens(source, tokens);
    this.#depth -= 1;
    return read;
  }

  /** @param {string} text @param {Token[]} tokens @param {string} type */
  #plain(text, tokens, type) {
    if (text !== "") tokens.push({ type, raw: text, text });
    return tokens;
  }
}

/**
 * Parses a text, which may be incomplete: a fence without an end ends with the text.
 * @param {string} text
 * @param {Leads} [leads] without it, as for the text of models, only links to the web are kept
 * @returns {Block[]}
 */
export const blocksOf = (text, leads = webAddress) => blocks(new Bounded({ gfm: true }).lex(text), leads);

/** @param {Token[]} tokens @param {Leads} leads @returns {Block[]} */
const blocks = (tokens, leads) => tokens.flatMap((token) => block(token, leads) ?? []);

/** @param {Token} token @param {Leads} leads @returns {Block | null} */
function block(token, leads) {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return { type: "heading", level: token.depth, spans: spans(token.tokens, leads) };
    case "code":
      return { type: "code", language: token.lang?.trim().split(/\s/, 1)[0] ?? "", text: token.text };
    case "list": {
      const items = token.items.map((/** @type {Token} */ item) => blocks(item.tokens, leads));
      return { type: "list", ordered: token.ordered, start: Number(token.start) || 0, items };
    }
    case "blockquote":
      return { type: "quote", blocks: blocks(token.tokens, leads) };
    case "table": {
      const row = (/** @type {Token[]} */ cells) => cells.map((cell) => spans(cell.tokens, leads));
      return { type: "table", head: row(token.header), rows: token.rows.map(row) };
    }
    case "hr":
      return { type: "rule" };
    case "checkbox":
      return { type: "paragraph", spans: [{ type: "text", text: token.checked ? "☑" : "☐" }] };
    default:
      // A paragraph, or HTML, which is shown as text.
      return { type: "paragraph", spans: token.tokens ? spans(token.tokens, leads) : [plain(token)] };
  }
}

/** @param {Token} token @returns {Span} */
const plain = (token) => ({ type: "text", text: (token.text ?? token.raw).trimEnd() });

/** @param {Token[]} tokens @param {Leads} leads @returns {Span[]} */
const spans = (tokens, leads) => tokens.flatMap((token) => span(token, leads));

/** @type {Record<string, "strong" | "emphasis" | "struck">} */
const MARKS = { strong: "strong", em: "emphasis", del: "struck" };

/** @param {Token} token @param {Leads} leads @returns {Span[]} */
function span(token, leads) {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return [{ type: MARKS[token.type], spans: spans(token.tokens, leads) }];
    case "codespan":
      return [{ type: "code", text: token.text }];
    case "br":
      return [{ type: "break" }];
    case "link":
      return link(token, leads);
    case "image":
      // The page fetches no pictures. A picture becomes a link, which the user can follow.
      return link({ ...token, tokens: [{ type: "text", text: token.text }] }, leads);
    case "checkbox":
      return [{ type: "text", text: token.checked ? "☑ " : "☐ " }];
    default:
      return token.tokens ? spans(token.tokens, leads) : [{ type: "text", text: token.text ?? token.raw }];
  }
}

/**
 * Makes a link; text, if it has no target. A label that is itself an address is replaced by the address that the link opens.
 * @param {Token} token
 * @param {Leads} leads
 * @returns {Span[]}
 */
function link(token, leads) {
  const address = leads(token.href);
  if (!address) return [{ type: "text", text: token.raw }];
  const isAddress = token.text.trim() === "" || /^[a-z]+:\/\/|^www\./i.test(token.text.trim());
  return [{ type: "link", address, spans: isAddress ? [{ type: "text", text: address }] : spans(token.tokens, leads) }];
}
