import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();

test("files_are_shown_without_their_secrets", async () => {
  const page = await both.visitor.open(both.stage, "#/config");
  await page.getByTestId("no-problems").waitFor();
  const text = await page.locator('[data-testid="file"][data-status="exists"]').first().innerText();
  assert.match(text, /"SECRET": "\*\*\*"/);
  assert.doesNotMatch(await page.content(), /sk-1234567890/);
  assert.ok((await page.locator('[data-testid="file"][data-status="missing"]').count()) > 0);
  await leave(page);
});

test("what_is_wrong_with_a_file_is_told_with_its_place_and_goes_when_it_is_right", async () => {
  const page = await both.visitor.open(both.stage, "#/config");
  const before = readFileSync(both.stage.config, "utf8");
  writeFileSync(both.stage.config, before.replace('"command": "no-such-program"', '"comand": "no-such-program"'));
  await page
    .getByTestId("problems")
    .getByText(/mcp\.json:\d+:\d+/)
    .first()
    .waitFor();
  writeFileSync(both.stage.config, before);
  await page.getByTestId("no-problems").waitFor();
  await leave(page);
});

test("text_is_checked_before_it_is_anywhere", async () => {
  const page = await both.visitor.open(both.stage, "#/config");
  await page.getByTestId("validate-text").fill('{ "mcpServers": {\n  "a": { "command": 1 } } }');
  await page.getByTestId("validate-run").click();
  await page
    .getByTestId("validate-result")
    .getByText(/line 2|:2:/)
    .first()
    .waitFor();
  await page.getByTestId("validate-text").fill('{ "mcpServers": { "a": { "command": "x" } } }');
  await page.getByTestId("validate-run").click();
  await page.getByTestId("validate-result").getByText("It is fine.").waitFor();
  await page.getByTestId("kind-toml").check();
  await page.getByTestId("validate-text").fill("[[defaults.mcp");
  await page.getByTestId("validate-run").click();
  await page.locator('[data-testid="validate-result"][data-status="bad"]').waitFor();
  await leave(page);
});
