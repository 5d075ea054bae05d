import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { leave, staged, workshop } from "../stage.mjs";

const both = staged();
const row = (page, name) => page.locator(`[data-testid="server"][data-name="${name}"]`);
const inState = (page, name, state) =>
  page.locator(`[data-testid="server"][data-name="${name}"][data-status="${state}"]`);
const menu = (page, name) => row(page, name).getByTestId("menu").locator("summary");

test("each_server_says_how_it_is_where_it_comes_from_and_what_it_brings", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await inState(page, "workshop", "connected").waitFor();
  const text = await row(page, "workshop").innerText();
  for (const part of [/connected/, /stdio/, /legacy/, /The workshop 1\.2\.3/, /Tools\s+10/, /user.*mcp\.json:3/])
    assert.match(text, part);
  await inState(page, "shop-db", "pending_trust").getByRole("link", { name: "Review" }).waitFor();
  await inState(page, "old", "disabled").getByTestId("enable").waitFor();
  assert.match(await row(page, "broken").getByTestId("reason").innerText(), /no-such-program/);
  await leave(page);
});

test("a_server_is_disconnected_and_connected_again", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await menu(page, "workshop").click();
  await row(page, "workshop").getByTestId("disconnect").click();
  await inState(page, "workshop", "disconnected").getByTestId("connect").click();
  await inState(page, "workshop", "connected").getByTestId("reconnect").click();
  await inState(page, "workshop", "connected").waitFor();
  await leave(page);
});

test("a_server_is_switched_off_and_on_in_its_file", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await menu(page, "workshop").click();
  await row(page, "workshop").getByTestId("toggle").click();
  await page.getByTestId("confirm-action").click();
  await inState(page, "workshop", "disabled").waitFor();
  assert.match(readFileSync(both.stage.config, "utf8"), /"(disabled": true|enabled": false)/);
  await row(page, "workshop").getByTestId("enable").click();
  await page.getByTestId("confirm-action").click();
  await inState(page, "workshop", "connected").waitFor();
  await leave(page);
});

test("an_entry_is_copied_for_other_programs_without_what_is_hidden", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  for (const [format, label, part] of [
    ["claude", "Claude Code", /"mcpServers"/],
    ["vscode", "VS Code", /"servers"/],
    ["codex", "Codex", /\[mcp_servers\.workshop\]/],
  ]) {
    await menu(page, "workshop").click();
    await row(page, "workshop").getByTestId(`copy-${format}`).click();
    await page.getByTestId("said").getByText(`Copied for ${label}`).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, part);
    assert.doesNotMatch(copied, /sk-1234|\*\*\*/);
  }
  await leave(page);
});

test("a_change_of_the_file_is_seen_at_once", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  const before = readFileSync(both.stage.config, "utf8");
  const changed = JSON.parse(before);
  changed.mcpServers.added = workshop();
  writeFileSync(both.stage.config, JSON.stringify(changed, null, 2));
  await inState(page, "added", "connected").waitFor();
  writeFileSync(both.stage.config, '{ "mcpServers": { "broken: {} } }');
  await page.getByTestId("problems").getByText("mcp.json:1").waitFor();
  await inState(page, "added", "connected").waitFor();
  writeFileSync(both.stage.config, before);
  await row(page, "added").waitFor({ state: "detached" });
  await leave(page);
});

test("a_server_is_removed_once_the_change_was_shown", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await menu(page, "old").click();
  await row(page, "old").getByTestId("remove").click();
  await page.getByTestId("confirm").getByTestId("diff").getByText('"old"').waitFor();
  await page.keyboard.press("Escape");
  await page.getByTestId("confirm").waitFor({ state: "detached" });
  assert.match(readFileSync(both.stage.config, "utf8"), /"old"/, "Escape removes nothing");
  await menu(page, "old").click();
  await row(page, "old").getByTestId("remove").click();
  await page.getByTestId("confirm-action").click();
  await row(page, "old").waitFor({ state: "detached" });
  assert.doesNotMatch(readFileSync(both.stage.config, "utf8"), /"old"/);
  await leave(page);
});
