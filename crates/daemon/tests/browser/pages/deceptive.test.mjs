// Text that pretends to be another: wherever the user decides by a text, the page shows every character of it.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { leave, staged, workshop } from "../stage.mjs";

const both = staged();

/** Returns the texts of a page that still contain a character which acts on the display or is invisible. @param {any} page */
const hidden = (page) =>
  page.evaluate(() => {
    const bad = /[\u200b-\u200f\u202a-\u202e\u2060-\u2069]/;
    const names = [...document.querySelectorAll("*")].flatMap((element) =>
      ["title", "aria-label", "alt", "placeholder"].map((name) => element.getAttribute(name) ?? ""),
    );
    return [document.body.innerText, ...names].filter((text) => bad.test(text));
  });

test("nothing_that_is_shown_hides_what_it_is", async () => {
  const { stage, visitor } = both;
  const { command, args } = workshop();
  const evil = [...args, "--safe\u202eexe.live\u202c", "--a\u200bb", "x\n--not-another-arg"];
  writeFileSync(
    join(stage.project, ".mcp.json"),
    JSON.stringify({ mcpServers: { "shop-db": { command, args: evil } } }),
  );
  const page = await visitor.open(stage, "#/trust");
  const proposal = page.getByTestId("proposal");
  await proposal.getByText('"--safe\\u202eexe.live\\u202c"').waitFor();
  const lines = (await proposal.innerText()).split("\n");
  assert.ok(lines.includes('"x\\n--not-another-arg"') && !lines.includes("--not-another-arg"), lines.join("\n"));
  assert.deepEqual(await hidden(page), []);

  // The definition of a tool, its arguments, and its result.
  const tools = join(stage.folder, "tools.json");
  writeFileSync(tools, JSON.stringify({ erase: { description: "Erases \u202enothing\u202c." } }));
  const entry = { command, args: [...args, "--as", tools], invisible: "keep" };
  assert.equal((await stage.api("/api/v1/servers", { name: "sly", entry })).status, 201);
  await stage.settled("sly", "connected");
  await page.goto(`${stage.origin}/#/approvals`);
  const given = { path: "safe\u202etxt.exe\u202c" };
  const call = stage.api("/api/v1/calls", { tool: "sly/erase", arguments: given });
  const question = page.getByTestId("question");
  await question.getByText("Erases \\u{202e}nothing\\u{202c}.").waitFor();
  await question.getByText("safe\\u202etxt.exe\\u202c").waitFor();
  assert.deepEqual(await hidden(page), []);
  await page.getByTestId("edit-arguments").click();
  await page.getByTestId("once").click();
  assert.equal((await call).body.text, `erased ${given.path}`, "it is sent as it came");

  await page.goto(`${stage.origin}/#/tools/sly/echo`);
  await page.getByLabel("text").first().fill("a\u200bb");
  await page.getByTestId("call").click();
  await page.getByTestId("result").getByText("a\\u{200b}b").waitFor();
  assert.deepEqual(await hidden(page), []);
  await leave(page);
});
