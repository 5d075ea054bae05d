import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { leave, staged, workshop } from "../stage.mjs";

const both = staged();

test("a_person_gives_and_removes_what_their_servers_need_and_no_value_is_shown", async () => {
  const page = await both.visitor.open(both.stage, "#/credentials/MY_TOKEN");
  await page.getByTestId("no-credentials").waitFor();
  const before = JSON.parse(readFileSync(both.stage.config, "utf8"));
  const mine = workshop({ env: { TOKEN: "${user:MY_TOKEN}" } });
  writeFileSync(both.stage.config, JSON.stringify({ mcpServers: { ...before.mcpServers, mine } }));
  const credential = page.locator('[data-testid="credential"][data-name="MY_TOKEN"]');
  await page.locator('[data-testid="credential"][data-status="missing"]').waitFor();
  assert.match(await credential.innerText(), /For mine/);
  await credential.getByTestId("value").fill("canary-5f0e9c1d");
  await credential.getByTestId("give").click();
  await page.locator('[data-testid="credential"][data-status="given"]').waitFor();
  assert.equal(await credential.getByTestId("value").inputValue(), "");
  assert.doesNotMatch(await page.content(), /canary/);
  await credential.getByTestId("remove").click();
  await page.getByTestId("confirm-action").click();
  await page.locator('[data-testid="credential"][data-status="missing"]').waitFor();
  await leave(page);
});

test("a_name_that_no_server_needs_asks_for_nothing", async () => {
  const page = await both.visitor.open(both.stage, "#/credentials/OTHER");
  await page.getByTestId("no-credentials").waitFor();
  assert.equal(await page.getByTestId("value").count(), 0);
  await leave(page);
});
