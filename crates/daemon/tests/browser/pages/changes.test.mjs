// Adding, cloning, importing and editing: the daemon writes nothing before the page has shown the difference.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { leave, staged, workshop } from "../stage.mjs";

const both = staged();
const file = () => readFileSync(both.stage.config, "utf8");
const connected = (page, name) =>
  page.locator(`[data-testid="server"][data-name="${name}"][data-status="connected"]`).first().waitFor();

test("a_server_is_added_by_a_form", async () => {
  const page = await both.visitor.open(both.stage, "#/add/form");
  const { command, args } = workshop();
  await page.getByTestId("review").click();
  await page.getByTestId("form-problem").getByText("a name is needed").waitFor();
  await page.getByTestId("name").fill("formed");
  await page.getByTestId("command").fill(command);
  await page.getByTestId("args").fill(args.join("\n"));
  await page.getByRole("button", { name: "Add a variable" }).click();
  await page.getByLabel("Name of variable 1").fill("TOKEN");
  await page.getByLabel("Value of variable 1").fill("sk-abcdefabcdef1234");
  await page.getByTestId("review").click();
  const diff = await page.getByTestId("diff").innerText();
  assert.match(diff, /\+ .*"formed"/);
  assert.doesNotMatch(diff, /sk-abcdef/, "secrets are hidden in the difference");
  await page.getByTestId("kept-secrets").getByText("TOKEN as formed.TOKEN").waitFor();
  assert.doesNotMatch(file(), /formed/, "nothing is written yet");
  await page.getByTestId("confirm-action").click();
  await connected(page, "formed");
  assert.doesNotMatch(file(), /sk-abcdefabcdef1234/, "the secret is stored, and the file names it");
  assert.match(file(), /\$\{secret:formed\.TOKEN\}/);
  await leave(page);
});

test("servers_are_added_from_pasted_text", async () => {
  const page = await both.visitor.open(both.stage, "#/add/json");
  await page.getByTestId("pasted").fill("npx something");
  await page.getByTestId("form-problem").getByText("this is not JSON").waitFor();
  await page.getByTestId("pasted").fill(`// from a page\n"pasted": ${JSON.stringify(workshop())},`);
  await page.getByTestId("found").getByTestId("review").click();
  await page.getByTestId("confirm-action").click();
  await page.getByRole("link", { name: "Look at pasted" }).click();
  await connected(page, "pasted");
  await leave(page);
});

test("servers_of_other_programs_are_imported", async () => {
  const page = await both.visitor.open(both.stage, "#/add/import");
  const offer = page.locator('[data-testid="offer"][data-name="memory"]');
  await offer.getByText("Cursor", { exact: true }).waitFor();
  await offer.getByRole("checkbox").check();
  await page.getByTestId("import").click();
  await connected(page, "memory");
  await leave(page);
});

test("an_entry_is_edited_and_keeps_the_secrets_that_were_not_shown", async () => {
  const page = await both.visitor.open(both.stage, "#/servers/workshop/edit");
  assert.equal(await page.getByLabel("Value of variable 2").inputValue(), "***");
  await page.getByTestId("args").fill(`${await page.getByTestId("args").inputValue()}\n--slowly`);
  await page.getByTestId("review").click();
  const diff = await page.getByTestId("diff").innerText();
  assert.match(diff, /\+.*--slowly/);
  assert.doesNotMatch(diff, /^[+-].*SECRET/m, "what stays is no difference");
  await page.getByTestId("confirm-action").click();
  await connected(page, "workshop");
  assert.match(file(), /--slowly/);
  assert.match(file(), /sk-1234567890abcdef/);
  await leave(page);
});

test("an_edit_that_lost_a_race_says_so_and_writes_nothing", async () => {
  const page = await both.visitor.open(both.stage, "#/servers/old/edit");
  await page.getByTestId("command").fill("other-program");
  const { body } = await both.stage.api("/api/v1/servers/old");
  await fetch(`${both.stage.origin}/api/v1/servers/old`, {
    method: "PUT",
    headers: { authorization: `Bearer ${both.stage.token}`, "content-type": "application/json" },
    body: JSON.stringify({ entry: { ...body.config, command: "first-program" } }),
  });
  await page.getByTestId("review").click();
  await page.getByTestId("trouble").getByRole("button", { name: "Try again" }).click();
  await page.waitForFunction(() => document.querySelector('[data-testid="command"]')?.value === "first-program");
  assert.doesNotMatch(file(), /other-program/);
  await leave(page);
});

test("a_clone_wants_its_secrets_anew", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  const row = page.locator('[data-testid="server"][data-name="workshop"]');
  await row.getByTestId("menu").locator("summary").click();
  await row.getByTestId("clone").click();
  assert.equal(await page.getByTestId("name").inputValue(), "workshop-copy");
  await page.getByTestId("review").click();
  await page.getByTestId("form-problem").getByText("the value of SECRET is hidden").waitFor();
  await page.getByLabel("Value of variable 2").fill("${API_KEY}");
  await page.getByTestId("review").click();
  await page.getByTestId("confirm-action").click();
  await connected(page, "workshop-copy");
  await leave(page);
});

test("a_name_that_is_taken_is_refused_with_the_daemons_word", async () => {
  const page = await both.visitor.open(both.stage, "#/add/form");
  await page.getByTestId("name").fill("workshop");
  await page.getByTestId("transport-http").check();
  await page.getByTestId("url").fill("https://example.com/mcp");
  await page.getByTestId("review").click();
  await page
    .getByTestId("trouble")
    .getByText(/workshop/)
    .waitFor();
  await leave(page);
});
