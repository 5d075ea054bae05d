// What stands in a line of Markdown: emphasis, code, links. Pure.

import { webAddress } from "./links.js";

/**
 * @typedef {{type: "text", text: string}
 *   | {type: "code", text: string}
 *   | {type: "strong" | "emphasis" | "struck", spans: Span[]}
 *   | {type: "link", address: string, spans: Span[]}
 *   | {type: "break"}} Span
 */

/** Marks in each other go so deep; what is deeper is text. */
const DEEPEST = 6;

/** A label or an address that is longer is none. In characters. */
const LONGEST_LINK = 4000;

/** Where a run of text ends at which nothing begins. */
const PLAIN = /[^\\`*_~[!<h\n]+/y;

/** The marks, the longer ones first. @type {[string, "strong" | "emphasis" | "struck"][]} */
const MARKS = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "struck"],
  ["*", "emphasis"],
  ["_", "emphasis"],
];

/** @typedef {{span: Span, next: number}} Taken */

/**
 * Reads a line, or the lines of a paragraph.
 * @param {string} text
 * @param {number} [depth]
 * @returns {Span[]}
 */
export function spansOf(text, depth = 0) {
  /** @type {Span[]} */
  const spans = [];
  // A mark that was looked for to the end of the text in vain is not looked for again: a text of marks only stays cheap.
  const missing = /** @type {Set<string>} */ (new Set());
  let plain = "";
  let at = 0;
  while (at < text.length) {
    PLAIN.lastIndex = at;
    const run = PLAIN.exec(text)?.[0];
    if (run) {
      plain += run;
      at += run.length;
      continue;
    }
    const taken = take(text, at, depth, missing);
    if (taken.span.type === "text") plain += taken.span.text;
    else {
      if (plain) spans.push({ type: "text", text: plain });
      plain = "";
      spans.push(taken.span);
    }
    at = taken.next;
  }
  if (plain) spans.push({ type: "text", text: plain });
  return spans;
}

/**
 * What begins here: at least one character as text.
 * @param {string} text
 * @param {number} at
 * @param {number} depth
 * @param {Set<string>} missing
 * @returns {Taken}
 */
function take(text, at, depth, missing) {
  const sign = text[at];
  if (sign === "\n") return lineEnd(text, at);
  if (sign === "\\") return escaped(text, at);
  const found =
    (sign === "`" && code(text, at, missing)) ||
    (sign === "[" && link(text, at, depth)) ||
    // A picture is not fetched: who wants to see it follows the link.
    (sign === "!" && text[at + 1] === "[" && link(text, at + 1, depth)) ||
    (sign === "<" && bracketed(text, at)) ||
    (sign === "h" && bare(text, at)) ||
    ("*_~".includes(sign) && depth < DEEPEST && marked(text, at, depth, missing));
  if (found) return found;
  // A run of marks that begins nothing is text as a whole.
  let next = at + 1;
  while ("`*_~".includes(sign) && text[next] === sign) next += 1;
  return { span: { type: "text", text: text.slice(at, next) }, next };
}

/** @param {string} text @param {number} at @returns {Taken} */
function lineEnd(text, at) {
  const isHard = text.slice(Math.max(0, at - 2), at) === "  ";
  return { span: isHard ? { type: "break" } : { type: "text", text: "\n" }, next: at + 1 };
}

/** @param {string} text @param {number} at @returns {Taken} */
function escaped(text, at) {
  const next = text[at + 1] ?? "";
  if (next === "\n") return { span: { type: "break" }, next: at + 2 };
  if (/[!-/:-@[-`{-~]/.test(next)) return { span: { type: "text", text: next }, next: at + 2 };
  return { span: { type: "text", text: "\\" }, next: at + 1 };
}

/** @param {string} text @param {number} at @param {Set<string>} missing @returns {Taken | null} */
function code(text, at, missing) {
  const fence = /`+/y;
  fence.lastIndex = at;
  const mark = fence.exec(text)?.[0] ?? "`";
  if (missing.has(mark)) return null;
  const runs = /`+/g;
  runs.lastIndex = at + mark.length;
  for (let run = runs.exec(text); run; run = runs.exec(text)) {
    if (run[0] !== mark) continue;
    const inner = text.slice(at + mark.length, run.index).replaceAll("\n", " ");
    const isPadded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
    return { span: { type: "code", text: isPadded ? inner.slice(1, -1) : inner }, next: run.index + mark.length };
  }
  missing.add(mark);
  return null;
}

/**
 * @param {string} text
 * @param {number} at
 * @param {number} depth
 * @param {Set<string>} missing
 * @returns {Taken | null}
 */
function marked(text, at, depth, missing) {
  for (const [mark, type] of MARKS) {
    if (!text.startsWith(mark, at) || missing.has(mark)) continue;
    const begin = at + mark.length;
    // A mark opens before a word; `snake_case` is one word.
    if (!/\S/.test(text[begin] ?? "") || (mark[0] === "_" && isWord(text[at - 1]))) continue;
    const end = endOf(text, begin, mark, missing);
    if (end === null) missing.add(mark);
    else return { span: { type, spans: spansOf(text.slice(begin, end), depth + 1) }, next: end + mark.length };
  }
  return null;
}

const isWord = (/** @type {string | undefined} */ sign) => sign !== undefined && /[\p{L}\p{N}]/u.test(sign);

/**
 * Where a mark is closed; in code it is not.
 * @param {string} text
 * @param {number} begin
 * @param {string} mark
 * @param {Set<string>} missing
 */
function endOf(text, begin, mark, missing) {
  const signs = mark[0] === "*" ? /[`*]/g : mark[0] === "_" ? /[`_]/g : /[`~]/g;
  signs.lastIndex = begin;
  for (let sign = signs.exec(text); sign; sign = signs.exec(text)) {
    const end = sign.index;
    const run = runAt(text, end);
    signs.lastIndex = sign[0] === "`" ? (code(text, end, missing)?.next ?? end + run) : end + run;
    if (sign[0] === "`" || end === begin) continue;
    // One mark is no part of two; where more stand together, the outer one closes last.
    const fits = mark.length === 2 ? run >= 2 : run !== 2;
    const closes = /\S/.test(text[end - 1]) && text[end - 1] !== "\\" && !(mark[0] === "_" && isWord(text[end + run]));
    if (fits && closes) return end + run - mark.length;
  }
  return null;
}

/** How many of the same sign stand together from here. @param {string} text @param {number} at */
function runAt(text, at) {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

/**
 * `[label](address "title")`; what is no address of the web stays text.
 * @param {string} text
 * @param {number} at
 * @param {number} depth
 * @returns {Taken | null}
 */
function link(text, at, depth) {
  const middle = closing(text, at, "[", "]");
  if (middle === null || text[middle + 1] !== "(") return null;
  const end = closing(text, middle + 1, "(", ")");
  if (end === null) return null;
  const [, target] = /^\s*<?([^\s<>]*)>?(?:\s+["'(][^]*)?\s*$/.exec(text.slice(middle + 2, end)) ?? [];
  const address = webAddress(target);
  if (!address) return null;
  const label = text.slice(at + 1, middle).replace(/^!?\[/, "");
  return { span: linkTo(address, label.trim(), depth), next: end + 1 };
}

/**
 * A link whose label is an address itself shows the one that it opens.
 * @param {string} address
 * @param {string} label
 * @param {number} depth
 * @returns {Span}
 */
function linkTo(address, label, depth) {
  const isAddress = label === "" || /^[a-z]+:\/\/|^www\./i.test(label);
  return {
    type: "link",
    address,
    spans: isAddress ? [{ type: "text", text: address }] : withoutLinks(spansOf(label, Math.max(depth, DEEPEST - 2))),
  };
}

/** No link stands in a link. @param {Span[]} spans @returns {Span[]} */
function withoutLinks(spans) {
  return spans.flatMap((span) => {
    if (span.type === "link") return withoutLinks(span.spans);
    return "spans" in span ? [{ ...span, spans: withoutLinks(span.spans) }] : [span];
  });
}

/** Where a bracket is closed. @param {string} text @param {number} at @param {string} open @param {string} close */
function closing(text, at, open, close) {
  let depth = 0;
  const last = Math.min(text.length, at + LONGEST_LINK);
  for (let place = at; place < last; place += 1) {
    if (text[place] === "\\") place += 1;
    else if (text[place] === open && (depth += 1) > DEEPEST) return null;
    else if (text[place] === close && (depth -= 1) === 0) return place;
  }
  return null;
}

/** `<https://…>` @param {string} text @param {number} at @returns {Taken | null} */
function bracketed(text, at) {
  const pattern = /<(https?:\/\/[^\s<>]{1,2000})>/iy;
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  const address = webAddress(found?.[1]);
  return found && address ? { span: linkTo(address, "", 0), next: at + found[0].length } : null;
}

/**
 * An address as it is; what ends the sentence is no part of it.
 * @param {string} text
 * @param {number} at
 * @returns {Taken | null}
 */
function bare(text, at) {
  if (isWord(text[at - 1])) return null;
  const pattern = /https?:\/\/[^\s<>"`*]{1,2000}/y;
  pattern.lastIndex = at;
  let found = pattern.exec(text)?.[0];
  if (!found) return null;
  found = found.replace(/[.,;:!?'_~\]]+$/, "");
  while (found.endsWith(")") && found.split(")").length > found.split("(").length)
    found = found.slice(0, -1).replace(/[.,;:!?]+$/, "");
  const address = webAddress(found);
  return address ? { span: linkTo(address, "", 0), next: at + found.length } : null;
}
