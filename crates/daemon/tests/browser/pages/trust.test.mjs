import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { leave, staged, workshop } from "../stage.mjs";

const both = staged();
const pending = (page, status) => page.locator(`[data-testid="pending"][data-name="shop-db"][data-status="${status}"]`);

test("nothing_of_a_project_runs_before_somebody_has_seen_it_and_agreed", async () => {
  const page = await both.visitor.open(both.stage, "#/trust");
  const proposal = await pending(page, "new").getByTestId("proposal").innerText();
  for (const part of [workshop().command, "workshop.mjs", both.stage.project]) assert.ok(proposal.includes(part), part);
  assert.match(await page.getByTestId("nav-count-trust").innerText(), /^1/);
  await page.getByTestId("approve").click();
  await page.locator('[data-testid="trusted"][data-name="shop-db"]').waitFor();
  await both.stage.settled("shop-db", "connected");
  await page.getByTestId("no-pending").waitFor();
  await leave(page);
});

test("what_changed_since_is_marked_and_asks_again", async () => {
  const page = await both.visitor.open(both.stage, "#/trust");
  await page.getByTestId("no-pending").waitFor();
  const { command, args } = workshop();
  writeFileSync(
    join(both.stage.project, ".mcp.json"),
    JSON.stringify({ mcpServers: { "shop-db": { command, args: [...args, "--write"] } } }),
  );
  const changed = pending(page, "changed").locator('[data-testid="proposal"] [data-status="changed"]');
  await changed.getByText("--write").waitFor();
  assert.equal(await changed.count(), 1, "only the arguments are another");
  await page.getByTestId("approve").click();
  await page.getByTestId("no-pending").waitFor();
  await leave(page);
});

test("an_agreement_is_taken_back", async () => {
  const page = await both.visitor.open(both.stage, "#/trust");
  await page.getByRole("button", { name: "Revoke shop-db" }).click();
  await page.getByTestId("confirm-action").click();
  await pending(page, "new").waitFor();
  await both.stage.settled("shop-db", "pending_trust");
  await leave(page);
});
