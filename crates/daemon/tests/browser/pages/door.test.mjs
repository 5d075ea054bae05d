// The token that opens the page, and what the page shows when the daemon ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged({ cable: true });

test("the_token_leaves_the_address_at_once_and_is_remembered", async () => {
  const page = await both.visitor.open(both.stage);
  assert.doesNotMatch(page.url(), /token/);
  await page.reload();
  await page.getByTestId("figures").waitFor();
  assert.doesNotMatch(await page.content(), new RegExp(both.stage.token));
  await leave(page);
});

test("a_new_address_over_the_old_one_leads_to_the_overview", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await page.getByRole("heading", { name: "Servers", level: 1 }).waitFor();
  await page.goto(both.stage.address);
  await page.getByTestId("figures").waitFor();
  assert.doesNotMatch(page.url(), /token/);
  await leave(page);
});

test("without_the_token_it_is_asked_for", async () => {
  const page = await both.visitor.open(both.stage);
  await page.evaluate(() => localStorage.clear());
  await page.goto("about:blank");
  await page.goto(`${both.stage.origin}/#/servers`);
  await page.getByTestId("sign-in").getByText("toolrack up").waitFor();
  await page.getByTestId("token").fill(both.stage.address);
  await page.getByRole("button", { name: "Open the dashboard" }).click();
  await page.getByRole("heading", { name: "Servers", level: 1 }).waitFor();
  await leave(page);
});

test("a_token_of_an_earlier_launch_is_forgotten_and_the_page_says_so", async () => {
  const page = await both.visitor.open(both.stage);
  await page.evaluate(() => localStorage.setItem("toolrack.token", "of-yesterday"));
  await page.reload();
  await page.getByTestId("sign-in").getByText("has been restarted").waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem("toolrack.token")), null);
  await leave(page);
});

test("only_the_page_and_its_files_are_served_and_with_what_guards_them", async () => {
  const get = (path) => fetch(`${both.stage.origin}${path}`);
  const page = await get("/");
  assert.match(page.headers.get("content-security-policy"), /^default-src 'self';.*frame-ancestors 'none'/);
  assert.equal(page.headers.get("x-content-type-options"), "nosniff");
  assert.equal(page.headers.get("referrer-policy"), "no-referrer");
  const script = await get("/assets/app.js");
  assert.equal(script.headers.get("content-type"), "text/javascript; charset=utf-8");
  assert.equal(
    (await fetch(`${both.stage.origin}/assets/app.js`, { headers: { "if-none-match": script.headers.get("etag") } }))
      .status,
    304,
  );
  for (const path of ["/assets/missing.js", "/assets/", "/servers", "/assets/..%2f..%2fCargo.toml"]) {
    const missing = await get(path);
    assert.equal(missing.status, 404, path);
    assert.doesNotMatch(missing.headers.get("content-type"), /html/, path);
  }
});

test("a_broken_stream_is_begun_again_and_what_was_missed_is_there", async () => {
  const page = await both.visitor.open(both.stage, "#/servers/workshop/history");
  const connection = (state) => page.locator(`[data-testid="connection"][data-status="${state}"]`).waitFor();
  await connection("live");
  both.stage.cable.cut();
  await connection("lost");
  await both.stage.api("/api/v1/calls", { tool: "workshop/refuse", arguments: {}, approved: true });
  both.stage.cable.mend();
  await connection("live");
  await page
    .getByTestId("history")
    .getByText(/^refuse: tool error/)
    .waitFor();
  // The browser's own messages about the cut connections.
  page.wrong = page.wrong.filter((wrong) => !wrong.includes("net::ERR_"));
  await leave(page);
});

test("the_last_state_of_a_dead_daemon_is_not_shown_as_the_present_one", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  const state = page.locator('[data-testid="server"][data-name="workshop"]').getByTestId("state");
  await state.and(page.locator('[data-known="true"].good')).waitFor();
  both.stage.cable.cut();
  await state.and(page.locator('[data-known="false"].quiet')).getByText("was connected").waitFor();
  both.stage.cable.mend();
  await state.and(page.locator('[data-known="true"].good')).waitFor();
  // The browser's own messages about the cut connections.
  page.wrong = page.wrong.filter((wrong) => !wrong.includes("net::ERR_"));
  await leave(page);
});
