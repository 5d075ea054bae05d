// Markdown, as models write it, into a tree of plain values. Nothing in it is markup: the page makes its nodes from the
// tree, and what is not understood stays the text that it was. Pure.

import { spansOf } from "./markdown-spans.js";

/**
 * @typedef {import("./markdown-spans.js").Span} Span
 * @typedef {{type: "paragraph", spans: Span[]}
 *   | {type: "heading", level: number, spans: Span[]}
 *   | {type: "list", ordered: boolean, start: number, items: Block[][]}
 *   | {type: "code", language: string, text: string}
 *   | {type: "quote", blocks: Block[]}
 *   | {type: "table", head: Span[][], rows: Span[][][]}
 *   | {type: "rule"}} Block
 */

/** Lists and quotes in each other go so deep; what is deeper is text. */
const DEEPEST = 8;

/** More cells than this in a row are no table that a person reads. */
const MOST_CELLS = 40;

/**
 * What kind of block a line begins, or null for a line of a paragraph.
 * @typedef {(lines: string[], at: number, depth: number) => {block: Block, next: number} | null} Taker
 */

/**
 * Reads a text. One that is still being written is read as far as it goes: a fence without an end ends with the text.
 * @param {string} text
 * @returns {Block[]}
 */
export const blocksOf = (text) => blocksIn(text.replace(/\r\n?/g, "\n").split("\n"), 0);

/** @param {string[]} lines @param {number} depth @returns {Block[]} */
function blocksIn(lines, depth) {
  /** @type {Block[]} */
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const { block, next } = special(lines, at, depth) ?? paragraph(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

/** @type {Taker} */
function special(lines, at, depth) {
  for (const take of [fence, heading, rule, quote, list, table]) {
    const taken = take(lines, at, depth);
    if (taken) return taken;
  }
  return null;
}

/**
 * Whether something begins here that ends a paragraph. What is in it is not read yet.
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 */
const interrupts = (lines, at, depth) =>
  (depth < DEEPEST && (/^ {0,3}>/.test(lines[at]) || itemIn(lines[at]) !== null)) ||
  special(lines, at, DEEPEST) !== null;

const isBlank = (/** @type {string} */ line) => line.trim() === "";

const indentOf = (/** @type {string} */ line) => line.length - line.trimStart().length;

/** @param {string[]} lines @param {number} at @param {number} depth @returns {{block: Block, next: number}} */
function paragraph(lines, at, depth) {
  let next = at + 1;
  while (next < lines.length && !isBlank(lines[next]) && !interrupts(lines, next, depth)) next += 1;
  const text = lines.slice(at, next).map((line) => line.trimStart());
  return { block: { type: "paragraph", spans: spansOf(text.join("\n").trimEnd()) }, next };
}

/** @type {Taker} */
function fence(lines, at) {
  const opened = /^ {0,3}(`{3,}|~{3,}(?!~))([^`]*)$/.exec(lines[at]);
  if (!opened) return null;
  const [, mark, about] = opened;
  const [language] = about.trim().split(/\s/, 1);
  const indent = indentOf(lines[at]);
  let next = at + 1;
  const isEnd = (/** @type {string} */ line) =>
    line.trim().length >= mark.length && line.trim() === mark[0].repeat(line.trim().length);
  while (next < lines.length && !isEnd(lines[next])) next += 1;
  const text = lines.slice(at + 1, next).map((line) => line.slice(Math.min(indent, indentOf(line))));
  return { block: { type: "code", language, text: text.join("\n") }, next: next + 1 };
}

/** @type {Taker} */
function heading(lines, at) {
  const found = /^ {0,3}(#{1,6})(?:\s+(.*))?$/.exec(lines[at]);
  if (!found) return null;
  const text = (found[2] ?? "").trim();
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  const isClosed = end === 0 || text[end - 1] === " ";
  return {
    block: {
      type: "heading",
      level: found[1].length,
      spans: spansOf(isClosed ? text.slice(0, end).trimEnd() : text),
    },
    next: at + 1,
  };
}

/** @type {Taker} */
function rule(lines, at) {
  const marks = lines[at].replace(/\s/g, "");
  const isRule = marks.length >= 3 && "-*_".includes(marks[0]) && marks === marks[0].repeat(marks.length);
  return isRule ? { block: { type: "rule" }, next: at + 1 } : null;
}

/** @type {Taker} */
function quote(lines, at, depth) {
  if (depth >= DEEPEST || !/^ {0,3}>/.test(lines[at])) return null;
  let next = at;
  while (next < lines.length && /^ {0,3}>/.test(lines[next])) next += 1;
  const inner = lines.slice(at, next).map((line) => line.trimStart().slice(1).replace(/^ /, ""));
  return { block: { type: "quote", blocks: blocksIn(inner, depth + 1) }, next };
}

/** The sign that an item of a list begins with. @param {string} line */
function itemIn(line) {
  const found = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}|$)/.exec(line);
  return found && { width: found[0].length, ordered: found[2].length > 1, number: Number.parseInt(found[2], 10) || 0 };
}

/** @type {Taker} */
function list(lines, at, depth) {
  const first = itemIn(lines[at]);
  if (!first || depth >= DEEPEST) return null;
  /** @type {Block[][]} */
  const items = [];
  let next = at;
  while (next < lines.length) {
    const item = itemIn(lines[next]);
    if (!item || item.ordered !== first.ordered || rule(lines, next, depth)) break;
    const end = itemEnd(lines, next);
    const inner = lines
      .slice(next, end)
      .map((line, index) => (index === 0 ? line.slice(item.width) : line.slice(Math.min(item.width, indentOf(line)))));
    items.push(blocksIn(inner, depth + 1));
    next = end;
  }
  return { block: { type: "list", ordered: first.ordered, start: first.ordered ? first.number : 1, items }, next };
}

/**
 * Where an item ends: it goes on in lines that are set in, however little, as models are not exact in that.
 * @param {string[]} lines
 * @param {number} at
 */
function itemEnd(lines, at) {
  let next = at + 1;
  while (next < lines.length) {
    const line = lines[next];
    const goesOn = isBlank(line)
      ? next + 1 < lines.length && (indentOf(lines[next + 1]) >= 2 || itemIn(lines[next + 1]))
      : indentOf(line) >= 2 || isLazy(lines, next);
    if (!goesOn) break;
    next += 1;
  }
  return next;
}

/**
 * Whether a line that is not set in goes on with the paragraph of the line before it.
 * @param {string[]} lines
 * @param {number} at
 */
const isLazy = (lines, at) => !isBlank(lines[at - 1]) && !interrupts(lines, at, 0);

/** @type {Taker} */
function table(lines, at) {
  if (!lines[at].includes("|") || !/^[\s|:-]+$/.test(lines[at + 1] ?? "")) return null;
  const head = cellsIn(lines[at]);
  const under = cellsIn(lines[at + 1]);
  const isTable =
    head.length > 0 &&
    head.length <= MOST_CELLS &&
    under.length === head.length &&
    under.every((cell) => /^:?-+:?$/.test(cell));
  if (!isTable) return null;
  let next = at + 2;
  /** @type {Span[][][]} */
  const rows = [];
  while (next < lines.length && lines[next].includes("|")) {
    const cells = cellsIn(lines[next]);
    rows.push(head.map((_, index) => spansOf(cells[index] ?? "")));
    next += 1;
  }
  return { block: { type: "table", head: head.map((cell) => spansOf(cell)), rows }, next };
}

/** The cells of a row; `\|` does not part them. @param {string} line */
function cellsIn(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}
