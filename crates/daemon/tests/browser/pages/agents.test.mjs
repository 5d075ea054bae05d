import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { leave, staged, workshop } from "../stage.mjs";

const both = staged();

/** @param {any} page @param {string} name */
const named = (page, name) => page.locator(`[data-testid="server"][data-name="${name}"]`);

test("the_world_of_an_agent_is_shown_by_itself", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await named(page, "workshop").waitFor();
  assert.equal(await page.getByTestId("agent").count(), 0, "no agent is configured, so there is nothing to choose");

  const command = JSON.stringify(process.execPath);
  const entry = `[[agents]]\nid = "coder"\n[[agents.mcp]]\nname = "lathe"\ncommand = ${command}\nargs = ["-e", "0"]\nenabled = false\n`;
  writeFileSync(join(both.stage.folder, "toolrack/toolrack.toml"), entry);
  await page.getByTestId("agent").selectOption("coder");
  await page.waitForURL(/\?agent=coder#\/$/);
  await page.getByTestId("connection").and(page.locator('[data-status="live"]')).waitFor();
  await page.getByTestId("nav-servers").click();
  await named(page, "lathe").waitFor();
  await named(page, "workshop").waitFor();
  assert.equal(await page.getByTestId("agent").inputValue(), "coder");

  await page.getByTestId("agent").selectOption("");
  await page.waitForURL((url) => url.search === "");
  await page.getByTestId("nav-servers").click();
  await named(page, "workshop").waitFor();
  assert.equal(await named(page, "lathe").count(), 0, "an agent's server is shown to all agents");
  await leave(page);
});

test("a_world_that_is_not_there_says_so", async () => {
  const page = await both.visitor.open(both.stage);
  await page.goto(`${both.stage.origin}/?agent=gone#/`);
  await page.locator('[data-testid="trouble"][data-code="UNKNOWN_AGENT"]').getByText("no agent is called gone").waitFor();
  await page.locator('[data-testid="connection"][data-status="refused"]').waitFor();
  await page.getByTestId("agent").selectOption("");
  await page.locator('[data-testid="connection"][data-status="live"]').waitFor();
  await leave(page);
});

test("what_an_agent_is_asked_about_is_answered_in_the_inbox_of_all_agents", async () => {
  const { stage, visitor } = both;
  const { command, args } = workshop();
  const server = `name = "bench"\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`;
  writeFileSync(join(stage.folder, "toolrack/toolrack.toml"), `[[agents]]\nid = "coder"\n[[agents.mcp]]\n${server}`);
  const page = await visitor.open(stage, "#/approvals");
  await stage.settled("bench", "connected", "/agents/coder");
  const call = (of, tool) => stage.api(`${of}/api/v1/calls`, { tool, arguments: { path: "a.txt" } });
  const calls = [call("/agents/coder", "bench/erase"), call("", "workshop/erase")];
  await page.waitForFunction(() => document.title.startsWith("(2) "));
  const questions = page.getByTestId("question");
  const ofAgent = questions.filter({ has: page.getByTestId("of-agent") });
  assert.equal(await ofAgent.getByTestId("of-agent").innerText(), "coder");
  assert.match(await ofAgent.locator("h2").innerText(), /bench\/erase/);
  await ofAgent.getByTestId("once").click();
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  assert.equal((await calls[0]).body.text, "erased a.txt");
  await questions.getByTestId("deny").click();
  await questions.getByTestId("deny-send").click();
  assert.equal((await calls[1]).status, 403);
  await page.waitForFunction(() => !document.title.startsWith("("));
  await leave(page);
});
