// Many tabs of one browser, which has six connections for all of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();

/** In a window without a screen every tab counts as seen: this says otherwise. */
const unseen = () => {
  let isHidden = true;
  Object.defineProperty(document, "hidden", { get: () => isHidden });
  Object.assign(globalThis, {
    show() {
      isHidden = false;
      document.dispatchEvent(new Event("visibilitychange"));
    },
  });
};

test("many_tabs_leave_each_other_room_and_those_that_are_not_seen_still_count", async () => {
  const { stage, visitor } = both;
  const page = await visitor.open(stage, "#/servers");
  const context = page.context();
  const others = [];
  for (let number = 0; number < 8; number += 1) {
    const other = await context.newPage();
    await other.addInitScript(unseen);
    await other.goto(`${stage.origin}/#/servers`);
    others.push(other);
  }
  const call = stage.api("/api/v1/calls", { tool: "workshop/erase", arguments: { path: "a.txt" } });
  const waits = (tab) => tab.waitForFunction(() => document.title.startsWith("(1) "));
  await waits(page);
  await Promise.any(others.map(waits));
  for (const other of others) {
    await other.evaluate(() => globalThis.show());
    await other.locator('[data-testid="connection"][data-status="live"]').waitFor();
    await other.getByTestId("server").first().waitFor();
    await waits(other);
    await other.close();
  }
  await page.goto(`${stage.origin}/#/approvals`);
  await page.getByTestId("once").click();
  assert.equal((await call).status, 200);
  await leave(page);
});

test("a_look_that_is_never_answered_is_not_the_last", async () => {
  const { stage, visitor } = both;
  const page = await visitor.open(stage, "#/servers");
  await page.clock.install();
  let hangs = true;
  await page.route("**/api/v1/servers", (route) => (hangs ? new Promise(() => {}) : route.continue()));
  const asked = page.waitForRequest("**/api/v1/servers");
  await page.reload();
  await asked;
  await page.clock.runFor(20_000);
  const trouble = page.getByTestId("trouble").filter({ hasText: "did not answer in time" });
  await trouble.waitFor();
  hangs = false;
  await trouble.getByRole("button", { name: "Try again" }).click();
  await page.clock.runFor(200);
  await page.getByTestId("server").first().waitFor();
  await leave(page);
});
