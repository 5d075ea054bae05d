// The guide, as the dashboard shows it: its pages, the targets of their links, and its search. Pure.

import { webAddress } from "./links.js";
import { blocksOf } from "./markdown.js";
import { hashOf } from "./router.js";

/**
 * @typedef {import("./markdown.js").Block} Block
 * @typedef {import("./markdown.js").Span} Span
 * @typedef {{id: string, path: string}} Listed a page: its id in addresses, and its file in the folder of the guide
 * @typedef {object} Page
 * @property {string} id its id in addresses
 * @property {string} title
 * @property {string} about its first words
 * @property {Block[]} blocks its text, without the title
 * @property {Section[]} sections
 * @typedef {object} Section the text below one heading
 * @property {string} title the heading; that of the page for the text before the first heading
 * @property {string | null} anchor
 * @property {number} level of the heading; 1 is the title of the page
 * @property {string} text on one line
 * @typedef {object} Hit
 * @property {Page} page
 * @property {Section} section
 * @property {{text: string, isHit: boolean}[]} excerpt
 */

/** The addresses of the folder with the pages, and of other files that they link to, such as schemas and pictures. */
const FOLDER = "https://github.com/toolrack/toolrack/blob/main/docs/";

/** The length of an excerpt around a hit, in characters. */
const AROUND = 80;

/** The most hits that are shown. */
const MOST = 40;

/**
 * Returns the pages in the summary, in its order.
 * @param {string} summary
 * @returns {Listed[]}
 */
export const listed = (summary) =>
  [...summary.matchAll(/^\s*- \[[^\]]*\]\(([\w./-]+)\.md\)/gm)].map(([, path]) => ({
    id: path.slice(path.lastIndexOf("/") + 1),
    path: `${path}.md`,
  }));

/**
 * Returns the target of a link: a page in the dashboard, a file in the repository, or an address of the web.
 * @param {Listed} page
 * @param {Listed[]} pages
 * @returns {import("./markdown.js").Leads}
 */
export const leadsOf = (page, pages) => (written) => {
  const address = webAddress(URL.parse(written, `${FOLDER}${page.path}`)?.href);
  if (!address) return null;
  const { origin, pathname, hash } = new URL(address);
  const to = pages.find(({ path }) => `${FOLDER}${path}` === `${origin}${pathname}`);
  return to ? hashOf(["help", to.id, ...(hash ? [decodeURIComponent(hash.slice(1))] : [])]) : address;
};

/**
 * Returns the anchor of a heading, as GitHub and mdBook make it.
 * @param {string} title
 */
export const anchorOf = (title) =>
  title
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

/**
 * Parses a page of the guide. Each begins with its title.
 * @param {Listed} page
 * @param {string} text
 * @param {Listed[]} pages
 * @returns {Page}
 */
export function pageOf(page, text, pages) {
  const { id } = page;
  const [heading, ...others] = blocksOf(text, leadsOf(page, pages));
  const title = heading ? wordsIn(heading) : id;
  const headings = new Headings(id);
  const blocks = others.map((block) => (block.type === "heading" ? headings.shown(block) : asShown(block)));
  const beginning = blocks.find((block) => block.type === "paragraph" && block.spans.some((span) => span.type === "text"));
  return { id, title, about: beginning ? wordsIn(beginning) : "", blocks, sections: sectionsOf(title, blocks) };
}

/** Returns the headings of one page, below its title. */
class Headings {
  /** @type {Map<string, number>} the number of headings with each anchor */
  #seen = new Map();
  #level = 1;

  /** @param {string} page */
  constructor(page) {
    this.page = page;
  }

  /** None skips a level, as the headings of a page must not. @param {Block & {type: "heading"}} heading @returns {Block} */
  shown(heading) {
    this.#level = Math.min(heading.level, this.#level + 1);
    const id = this.#anchor(anchorOf(wordsOf(heading.spans)));
    return { ...heading, level: this.#level, anchor: { id, address: hashOf(["help", this.page, id]) } };
  }

  /** Of two headings with the same words, the second has a number, as GitHub and mdBook have it. @param {string} anchor */
  #anchor(anchor) {
    const count = this.#seen.get(anchor) ?? 0;
    this.#seen.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  }
}

/** @param {Block} block @returns {Block} */
function asShown(block) {
  if (block.type !== "code") return block;
  // The words behind the comma are for the tests of the guide.
  const language = block.language.split(",", 1)[0];
  return { ...block, language, text: language === "rust" ? withoutHidden(block.text) : block.text };
}

/** Without the lines that examples in Rust have only to be compiled. @param {string} code */
const withoutHidden = (code) =>
  code
    .split("\n")
    .filter((line) => !/^\s*#(?:\s|$)/.test(line))
    .join("\n");

/** @param {string} title @param {Block[]} blocks @returns {Section[]} */
function sectionsOf(title, blocks) {
  /** @type {{title: string, anchor: string | null, level: number, parts: string[]}[]} */
  const sections = [{ title, anchor: null, level: 1, parts: [] }];
  for (const block of blocks) {
    if (block.type === "heading" && block.anchor)
      sections.push({ title: wordsOf(block.spans), anchor: block.anchor.id, level: block.level, parts: [] });
    else sections[sections.length - 1].parts.push(wordsIn(block));
  }
  return sections.map(({ parts, ...section }) => ({ ...section, text: parts.join(" ").replace(/\s+/g, " ").trim() }));
}

/** The text of spans. @param {Span[]} spans @returns {string} */
function wordsOf(spans) {
  return spans
    .map((span) => {
      if (span.type === "break") return " ";
      return "spans" in span ? wordsOf(span.spans) : span.text;
    })
    .join("");
}

/** The text of a block. @param {Block} block @returns {string} */
function wordsIn(block) {
  switch (block.type) {
    case "paragraph":
    case "heading":
      return wordsOf(block.spans);
    case "code":
      return block.text;
    case "list":
      return block.items.flat().map(wordsIn).join(" ");
    case "quote":
      return block.blocks.map(wordsIn).join(" ");
    case "table":
      return [block.head, ...block.rows].map((row) => row.map(wordsOf).join(" ")).join(" ");
    case "rule":
      return "";
  }
}

/**
 * Returns the sections that contain every word of a search; those with all words in the title come first.
 * @param {Page[]} pages
 * @param {string} search
 * @returns {Hit[]}
 */
export function found(pages, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const has = (/** @type {string} */ text) => words.every((word) => text.toLowerCase().includes(word));
  const all = pages.flatMap((page) => page.sections.map((section) => ({ page, section })));
  const titled = (/** @type {{page: Page, section: Section}} */ { page, section }) => has(section.anchor === null ? page.title : section.title);
  const hits = all.filter(({ page, section }) => has(`${page.title} ${section.title} ${section.text}`));
  const ranked = [...hits.filter(titled), ...hits.filter((hit) => !titled(hit))];
  return ranked.slice(0, MOST).map((hit) => ({ ...hit, excerpt: excerpt(hit.section.text, words) }));
}

/** The part of a text in which a word was found, with every hit in it told apart. @param {string} text @param {string[]} words */
function excerpt(text, words) {
  const at = text.toLowerCase().search(new RegExp(words.map(escaped).join("|")));
  const start = Math.max(0, at - AROUND);
  const from = start === 0 ? 0 : text.indexOf(" ", start) + 1;
  const end = at + AROUND * 2;
  const to = end >= text.length ? text.length : Math.max(text.lastIndexOf(" ", end), at);
  const shown = `${from > 0 ? "… " : ""}${text.slice(from, to)}${to < text.length ? " …" : ""}`;
  const parts = shown.split(new RegExp(`(${words.map(escaped).join("|")})`, "i"));
  return parts.map((part, index) => ({ text: part, isHit: index % 2 === 1 })).filter((part) => part.text !== "");
}

/** A text as a pattern that matches it alone. @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
