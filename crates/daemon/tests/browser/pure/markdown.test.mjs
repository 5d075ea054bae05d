// Markdown of models: the marks that are understood, and that everything else stays text.

import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf } from "../../../assets/markdown.js";

/** Writes a tree in a short form: each node as a mark around its content. */
const short = (spans) =>
  spans
    .map((span) => {
      switch (span.type) {
        case "text":
          return span.text;
        case "code":
          return `{${span.text}}`;
        case "link":
          return `<${span.address}|${short(span.spans)}>`;
        case "break":
          return "⏎";
        default:
          return `${span.type}(${short(span.spans)})`;
      }
    })
    .join("");

/** Returns the only paragraph of a text. */
const line = (text) => {
  const [block, ...others] = blocksOf(text);
  assert.deepEqual([block.type, ...others], ["paragraph"], text);
  return short(block.spans);
};

const outline = (blocks) =>
  blocks.map((block) => {
    switch (block.type) {
      case "paragraph":
        return short(block.spans);
      case "heading":
        return `h${block.level} ${short(block.spans)}`;
      case "code":
        return { [block.language || "code"]: block.text };
      case "list":
        return { [block.ordered ? `from ${block.start}` : "list"]: block.items.map(outline) };
      case "quote":
        return { quote: outline(block.blocks) };
      case "table":
        return { head: block.head.map(short), rows: block.rows.map((row) => row.map(short)) };
      default:
        return block.type;
    }
  });

const read = (...lines) => outline(blocksOf(lines.join("\n")));

test("emphasis_and_code_stand_in_a_line", () => {
  assert.equal(line("a **b** *c* __d__ _e_ ~~f~~ `g`"), "a strong(b) emphasis(c) strong(d) emphasis(e) struck(f) {g}");
  assert.equal(line("***both***"), "emphasis(strong(both))");
  assert.equal(line("*a **b***"), "emphasis(a strong(b))");
  assert.equal(line("*a **b** c*"), "emphasis(a strong(b) c)");
  assert.equal(line("**a `**` b**"), "strong(a {**} b)");
  assert.equal(line("`` a ` b ``"), "{a ` b}");
});

test("what_only_looks_like_a_mark_is_text", () => {
  for (const text of [
    "snake_case_name",
    "2 * 3 * 4",
    "**open",
    "a `open",
    "5~6",
    "[x]",
    "[x] (y)",
    "!",
    "<b>bold</b>",
    "&amp;",
  ]) {
    assert.equal(line(text), text);
  }
  assert.equal(line(String.raw`\*no\* \[x\] C:\dir`), String.raw`*no* [x] C:\dir`);
});

test("only_links_of_the_web_become_links", () => {
  assert.equal(line("[a *b*](https://x.example/y)"), "<https://x.example/y|a emphasis(b)>");
  assert.equal(line('[a](http://x.example/y_(z) "title")'), "<http://x.example/y_(z)|a>");
  for (const text of [
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert`1`)",
    "[x](data:text/html,<script>)",
    "[x](file:///etc/passwd)",
    "[x](/api/v1/servers)",
    "[x](//x.example)",
    "[x]()",
    "<javascript:alert(1)>",
  ]) {
    assert.doesNotMatch(line(text), /<[^|]*\|/, text);
  }
});

test("a_link_that_names_one_address_and_opens_another_shows_what_it_opens", () => {
  assert.equal(line("[https://bank.example](https://evil.example/)"), "<https://evil.example/|https://evil.example/>");
});

test("an_address_in_a_sentence_ends_before_the_end_of_the_sentence", () => {
  assert.equal(
    line("See https://x.example/a, (https://x.example/b)."),
    "See <https://x.example/a|https://x.example/a>, (<https://x.example/b|https://x.example/b>).",
  );
  assert.equal(line("<https://x.example/c>"), "<https://x.example/c|https://x.example/c>");
});

test("a_picture_is_a_link_and_is_not_fetched", () => {
  assert.equal(line("![a cat](https://x.example/cat.png)"), "<https://x.example/cat.png|a cat>");
});

test("lines_break_only_where_they_are_told_to", () => {
  assert.equal(line("a\nb  \nc\\\nd"), "a\nb⏎c⏎d");
});

test("blocks_are_told_apart", () => {
  assert.deepEqual(read("# One #", "text", "goes on", "", "---", "## C#", "> quoted", "> - too"), [
    "h1 One",
    "text\ngoes on",
    "rule",
    "h2 C#",
    { quote: ["quoted", { list: [["too"]] }] },
  ]);
});

test("code_keeps_what_stands_in_it", () => {
  assert.deepEqual(read("```rust ignore", "**a**", "", "  <b>", "```", "after"), [{ rust: "**a**\n\n  <b>" }, "after"]);
  assert.deepEqual(read("~~~~", "```", "~~~~"), [{ code: "```" }]);
});

test("a_text_that_is_still_being_written_is_read_as_far_as_it_goes", () => {
  assert.deepEqual(read("```js", "let a"), [{ js: "let a" }]);
  assert.deepEqual(read("- a", "- "), [{ list: [["a"], []] }]);
  assert.deepEqual(read("| a | b |"), ["| a | b |"]);
  const whole =
    "# A\n\n1. **b** `c` [d](https://x.example/)\n   - e\n\n| f | g |\n|---|---|\n| h | i |\n\n```\nj\n```\n> k\n";
  for (let end = 0; end <= whole.length; end += 1) blocksOf(whole.slice(0, end));
});

test("lists_hold_lists_paragraphs_and_code", () => {
  assert.deepEqual(read("3. a", "   - b", "   - c", "4. d", "", "   e", "   ```", "   f", "   ```", "", "after"), [
    {
      "from 3": [
        ["a", { list: [["b"], ["c"]] }],
        ["d", "e", { code: "f" }],
      ],
    },
    "after",
  ]);
  assert.deepEqual(read("* a", "goes on", "* b"), [{ list: [["a\ngoes on"], ["b"]] }]);
});

test("tables_have_as_many_cells_as_their_head", () => {
  assert.deepEqual(read("| a | b |", "|:--|--:|", "| 1 | 2 | 3 |", String.raw`| x \| y |`, "", "after"), [
    {
      head: ["a", "b"],
      rows: [
        ["1", "2"],
        ["x | y", ""],
      ],
    },
    "after",
  ]);
  assert.deepEqual(read("a | b", "no table"), ["a | b\nno table"]);
});

test("no_text_is_dear_to_read", () => {
  const many = 50_000;
  for (const piece of [
    "*",
    "**a ",
    "_a",
    "`",
    "` ``",
    "[",
    "[a](",
    "![",
    "~~",
    "> ",
    "- ",
    "  - ",
    "#",
    "|",
    "\\",
    "<http",
    "(",
    "h",
    " ",
    "1. ",
    "\n- ",
    "\n> ",
    "a|b\n",
    "**a** ",
  ]) {
    const from = performance.now();
    blocksOf(piece.repeat(many));
    const took = performance.now() - from;
    assert.ok(took < 1500, `${JSON.stringify(piece)} took ${took} ms`);
  }
});

test("what_lies_deep_is_text_at_last", () => {
  blocksOf(`${"> ".repeat(5000)}a`);
  blocksOf(`${"- ".repeat(5000)}a`);
  blocksOf(Array.from({ length: 200 }, (_, depth) => `${"  ".repeat(depth)}- a`).join("\n"));
});
