// The guide in the dashboard: every page is there, every link has a target, and a search finds its text.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { anchorOf, found, leadsOf, listed, pageOf } from "../../../assets/help.js";
import { HELP } from "../../../assets/help-links.js";

const DOCS = join(import.meta.dirname, "../../../../../docs");
const LIST = listed(readFileSync(join(DOCS, "SUMMARY.md"), "utf8"));
const PAGES = LIST.map((page) => pageOf(page, readFileSync(join(DOCS, page.path), "utf8"), LIST));

/** Returns all nodes of one type in a tree. @param {unknown} tree @param {string} type */
function all(tree, type) {
  if (tree === null || typeof tree !== "object") return [];
  const inner = Object.values(tree).flatMap((value) => all(value, type));
  return "type" in tree && tree.type === type ? [tree, ...inner] : inner;
}

/** Whether a place of the help is there: a page, and a heading where one is named. */
function isThere([id, anchor]) {
  const page = PAGES.find((one) => one.id === id);
  return page !== undefined && (anchor === undefined || page.sections.some((section) => section.anchor === anchor));
}

test("the_summary_lists_every_page_of_the_guide_once", () => {
  const files = readdirSync(join(DOCS, "guide")).filter((name) => name.endsWith(".md"));
  const paths = LIST.map(({ path }) => path);
  assert.deepEqual(files.filter((name) => !paths.includes(`guide/${name}`)), []);
  assert.equal(new Set(LIST.map(({ id }) => id)).size, LIST.length, "each has an address of its own");
});

test("every_link_between_pages_leads_to_a_page_and_to_a_heading_of_it", () => {
  let count = 0;
  for (const page of PAGES) {
    for (const { address } of all(page.blocks, "link")) {
      const [, section, ...to] = address.startsWith("#") ? address.split("/") : [];
      if (section === undefined) {
        assert.match(address, /^https?:\/\//, page.id);
        assert.doesNotMatch(address, /toolrack\/toolrack\/blob\/main\/docs\/.*\.md/, `${page.id}: a page that is not shown`);
        continue;
      }
      count += 1;
      assert.equal(section, "help", page.id);
      assert.ok(isThere(to.map(decodeURIComponent)), `${page.id}: ${address}`);
    }
  }
  assert.ok(count > 15, `only ${count} links`);
});

test("no_link_of_a_page_is_left_as_text", () => {
  for (const page of PAGES) for (const { text } of all(page.blocks, "text")) assert.doesNotMatch(text, /\]\(/, page.id);
});

test("the_dashboard_links_to_pages_and_headings_that_are_there", () => {
  for (const [topic, place] of Object.entries(HELP)) assert.ok(isThere(place), topic);
});

test("links_lead_from_where_their_page_is", () => {
  const lead = leadsOf({ id: "servers", path: "guide/servers.md" }, LIST);
  assert.equal(lead("trust.md"), "#/help/trust");
  assert.equal(lead("../sign-in.md#scopes"), "#/help/sign-in/scopes");
  assert.equal(lead("#variables"), "#/help/servers/variables");
  assert.equal(lead("https://github.com/toolrack/toolrack/blob/main/docs/guide/trust.md"), "#/help/trust");
  assert.equal(lead("../mcp.schema.json"), "https://github.com/toolrack/toolrack/blob/main/docs/mcp.schema.json");
  assert.equal(lead("https://example.com/trust.md"), "https://example.com/trust.md");
  for (const bad of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd"]) assert.equal(lead(bad), null, bad);
});

test("headings_have_the_anchors_that_links_of_the_guide_use", () => {
  assert.equal(anchorOf("Settings: `toolrack.toml`"), "settings-toolracktoml");
  assert.equal(anchorOf("A project's file is a proposal"), "a-projects-file-is-a-proposal");
  for (const page of PAGES) {
    const anchors = page.sections.map(({ anchor }) => anchor);
    assert.equal(new Set(anchors).size, anchors.length, `${page.id} has one heading twice`);
    assert.ok(page.title.length > 3 && page.about.length > 20, page.id);
  }
});

test("two_headings_with_the_same_words_have_anchors_of_their_own", () => {
  const page = pageOf({ id: "x", path: "guide/x.md" }, "# X\n\n## A\n\n## A\n", LIST);
  assert.deepEqual(
    page.sections.map(({ anchor }) => anchor),
    [null, "a", "a-1"],
  );
});

test("no_heading_skips_a_level", () => {
  const page = pageOf({ id: "x", path: "guide/x.md" }, "# X\n\n### A\n\n#### B\n\n## C\n", LIST);
  assert.deepEqual(
    page.sections.map(({ level }) => level),
    [1, 2, 3, 2],
  );
});

test("code_is_shown_as_a_reader_needs_it", () => {
  const page = pageOf({ id: "x", path: "guide/x.md" }, "# X\n\n```rust,no_run\n# fn f() {\nlet a = 1;\n#[test]\n# }\n```\n\n```sh\n# a comment\n```\n", LIST);
  assert.deepEqual(
    all(page.blocks, "code").map(({ language, text }) => [language, text]),
    [
      ["rust", "let a = 1;\n#[test]"],
      ["sh", "# a comment"],
    ],
  );
});

test("a_search_finds_sections_that_have_every_word_and_those_that_are_named_so_first", () => {
  const places = (search) => found(PAGES, search).map(({ page, section }) => [page.id, section.anchor].filter(Boolean).join("/"));
  assert.equal(places("audit log")[0], "policy/the-audit-log");
  assert.ok(places("QUARANTINE").includes("troubleshooting/a-tool-is-in-quarantine"));
  assert.ok(places("landlock").includes("sandbox/sandbox"));
  assert.deepEqual(places("quarantine zebra"), []);
  assert.deepEqual(places("  "), []);
  for (const { page, section } of found(PAGES, "egress proxy"))
    for (const word of ["egress", "proxy"]) assert.ok(`${page.title} ${section.title} ${section.text}`.toLowerCase().includes(word));
});

test("an_excerpt_marks_what_was_found_and_takes_the_search_as_it_is_written", () => {
  const page = pageOf({ id: "x", path: "guide/x.md" }, `# X\n\n${"before ".repeat(60)}the (a+b)* [text] here ${"after ".repeat(60)}`, LIST);
  const [{ excerpt }] = found([page], "(a+b)* [TEXT]");
  assert.deepEqual(
    excerpt.filter(({ isHit }) => isHit).map(({ text }) => text),
    ["(a+b)*", "[text]"],
  );
  const shown = excerpt.map(({ text }) => text).join("");
  assert.match(shown, /^… before .* after …$/);
  assert.ok(shown.length < 400, shown);
  assert.deepEqual(found([page], "\\d+ .*"), []);
});
