// Each member sees what they may use and when it is free again, and an operator what all others have used.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AXE } from "../stage.mjs";
import { withTeam } from "../team.mjs";

const limits = "calls_per_day = 50, each_member = { calls_per_month = 2, result_bytes_per_day = 100_000 }";
const { team, visitor } = withTeam({ browser: true, limits });

/** Has the page of a member make a call. @param {any} page @returns {Promise<number>} the status */
const call = (page) =>
  page.evaluate(async () => {
    const body = JSON.stringify({ tool: "acme-shop/echo", arguments: { text: "hello" } });
    const headers = { "content-type": "application/json" };
    return (await fetch("/api/v1/calls", { method: "POST", headers, body })).status;
  });

/** The quotas below a heading. @param {any} page @param {string} name */
const group = (page, name) => page.locator(`[data-testid="quota-group"][data-name="${name}"]`);

test("a_member_sees_what_is_used_of_each_quota_and_when_it_is_free_again", async () => {
  const page = await team.signedIn(visitor, "ann@acme.example", "#/quotas");
  const own = group(page, "You").locator('[data-name="limits.each_member.calls_per_month"]');
  await own.getByText("0 calls of 2 calls used").waitFor();
  await own.getByText("Nothing is used.").waitFor();
  assert.equal(await call(page), 200);
  assert.equal(await call(page), 200);
  assert.equal(await call(page), 429);
  await page.getByTestId("look-again").click();
  await own.getByText("2 calls of 2 calls used").waitFor();
  await own.getByText("Used up. More is free at").waitFor();
  await group(page, "All members together").getByText("2 calls of 50 calls used").waitFor();
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "best-practice"] }));
  assert.deepEqual(found.violations.map(({ id }) => id), []);
  await page.context().close();
});

test("an_operator_sees_those_of_all_members_and_a_member_those_of_no_other", async () => {
  const olga = await team.signedIn(visitor, "olga@acme.example", "#/quotas");
  await group(olga, "ann").getByText("2 calls of 2 calls used").waitFor();
  await olga.context().close();
  const bea = await team.signedIn(visitor, "bea@acme.example", "#/quotas");
  await group(bea, "You").waitFor();
  assert.equal(await bea.getByTestId("quota-group").count(), 2, "her own, and those of all together");
  await bea.context().close();
  const bob = await team.signedIn(visitor, "bob@bolt.example", "#/quotas");
  await bob.getByTestId("no-quotas").waitFor();
  await bob.context().close();
});
