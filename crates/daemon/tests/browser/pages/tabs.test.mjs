// Many tabs of one browser, which share six connections.

import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();

/** Marks a tab as hidden: without a screen, the browser treats every tab as visible. */
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

test("eight_windows_that_are_all_seen_share_one_stream_which_the_next_takes_over", async () => {
  const { stage, visitor } = both;
  const page = await visitor.open(stage, "#/servers");
  const context = page.context();
  /** @type {Set<unknown>} */
  const streams = new Set();
  context.on("request", (request) => request.url().endsWith("/api/v1/events") && streams.add(request.frame().page()));
  const others = [];
  for (let number = 0; number < 8; number += 1) {
    const other = await context.newPage();
    await other.goto(`${stage.origin}/#/servers`);
    await other.locator('[data-testid="connection"][data-status="live"]').waitFor();
    await other.getByTestId("server").first().waitFor();
    others.push(other);
  }
  assert.equal(streams.size, 0, "the first page listens for all");
  await page.close();
  const call = stage.api("/api/v1/calls", { tool: "workshop/erase", arguments: { path: "a.txt" } });
  for (const other of others) await other.waitForFunction(() => document.title.startsWith("(1) "));
  assert.equal(streams.size, 1);
  const [last] = others.slice(-1);
  await last.goto(`${stage.origin}/#/approvals`);
  await last.getByTestId("once").click();
  assert.equal((await call).status, 200);
  await context.close();
});

test("calls_that_take_long_leave_room_for_the_rest", async () => {
  const { stage, visitor } = both;
  const page = await visitor.open(stage, "#/tools/workshop/slow");
  const pages = [page];
  for (let number = 0; number < 5; number += 1) pages.push(await page.context().newPage());
  for (const each of pages) {
    await each.goto(`${stage.origin}/#/tools/workshop/slow`);
    await each.getByTestId("field-/steps").getByRole("textbox").fill("1000");
    await each.getByTestId("call").click();
    await each.getByTestId("progress").waitFor();
  }
  const waits = () => Promise.all(pages.map((each) => each.getByText("Other pages wait for answers").count()));
  for (let tries = 0; (await waits()).filter(Boolean).length !== 3; tries += 1) {
    assert.ok(tries < 100, `${await waits()}`);
    await new Promise((next) => setTimeout(next, 50));
  }
  await page.getByTestId("nav-servers").click();
  await page.getByTestId("server").first().waitFor();
  for (const each of pages.slice(1)) {
    await each.getByTestId("cancel").click();
    await each.getByTestId("cancelled").waitFor();
  }
  await leave(page);
});

test("a_look_that_is_never_answered_is_not_the_last", async () => {
  const { stage, visitor } = both;
  const page = await visitor.open(stage, "#/servers");
  await page.clock.install();
  let hangs = true;
  let hung = Promise.withResolvers();
  await page.route("**/api/v1/servers", (route) => {
    if (!hangs) return route.continue();
    hung.resolve(null);
    return new Promise(() => {});
  });
  // The page before could still ask while another one is loaded in its place.
  const place = page.url();
  await page.goto("about:blank");
  const first = [page.waitForRequest("**/api/v1/servers"), page.waitForResponse("**/api/v1/overview")];
  await page.goto(place);
  await Promise.all(first);
  await hung.promise;
  // What the page fetches after that says nothing about the servers: their error stays.
  const other = page.waitForResponse("**/api/v1/overview");
  await stage.api("/api/v1/calls", { tool: "workshop/echo", arguments: { text: "x" }, approved: true });
  await page.clock.runFor(20_000);
  await (await other).finished();
  await page.clock.runFor(200);
  const trouble = page.getByTestId("trouble").filter({ hasText: "did not answer in time" });
  await trouble.waitFor();
  // The user does not wait for a request that hangs when they ask again.
  hung = Promise.withResolvers();
  const second = page.waitForRequest("**/api/v1/servers");
  await stage.api("/api/v1/servers/broken/reconnect", {});
  await second;
  await hung.promise;
  hangs = false;
  await trouble.getByRole("button", { name: "Try again" }).click();
  await page.clock.runFor(200);
  await page.getByTestId("server").first().waitFor();
  await leave(page);
});
