// Every page for all users: with the keyboard, in light and dark, on a phone, and by axe-core's checks of WCAG AA.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AXE, leave, staged } from "../stage.mjs";

const both = staged({ converse: true, words: ["--model", "mock/script.json"] });

const PLACES = [
  "#/",
  "#/chat",
  "#/servers",
  "#/servers/workshop",
  "#/servers/workshop/resources",
  "#/servers/workshop/prompts",
  "#/servers/workshop/config",
  "#/servers/workshop/logs",
  "#/servers/workshop/history",
  "#/servers/workshop/health",
  "#/servers/broken/health",
  "#/servers/workshop/edit",
  "#/add/form",
  "#/add/json",
  "#/add/import",
  "#/tools",
  "#/tools/workshop/shapes",
  "#/approvals",
  "#/trust",
  "#/sessions",
  "#/audit",
  "#/config",
  "#/help",
  "#/help?q=audit",
  "#/help/daemon",
  "#/help/reference",
  "#/help/json",
  "#/nowhere",
];

/** Returns the violations that axe finds, in a short form. @param {any} page */
async function violations(page) {
  // The page's policy forbids foreign scripts, but a debugger may run one.
  await page.evaluate(AXE);
  const found = await page.evaluate(() =>
    globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }),
  );
  return found.violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 140)} ${failureSummary.slice(0, 200)}`).join("\n   ")}`,
  );
}

/** Waits until the page has fetched everything once. @param {any} page */
const still = (page) =>
  page.waitForFunction(() => !document.querySelector(".waiting") && document.querySelector("h1, .empty"));

for (const [look, options] of Object.entries({
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { colorScheme: "light", viewport: { width: 360, height: 740 } },
})) {
  test(`every_page_can_be_used_by_every_user_${look}`, async () => {
    const call = both.stage.api("/api/v1/calls", {
      tool: "workshop/erase",
      arguments: { path: "a-rather-long-path/that-goes-on-and-on/without-any-place-to-break.txt" },
    });
    const form = both.stage.api("/api/v1/calls", { tool: "workshop/ask", arguments: {}, approved: true });
    const page = await both.visitor.open(both.stage, "#/", options);
    const { body } = await both.stage.api("/api/v1/sessions");
    for (const place of [...PLACES, `#/sessions/${body.sessions[0].id}`]) {
      await page.goto(`${both.stage.origin}/${place}`);
      await still(page);
      assert.deepEqual(await violations(page), [], place);
      const { wide, room } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth,
        room: document.documentElement.clientWidth,
      }));
      assert.ok(wide <= room, `${place} is ${wide} wide where there is room for ${room}`);
    }
    await page.goto(`${both.stage.origin}/#/chat/${body.sessions[0].id}`);
    await page.getByTestId("call").locator("summary").click();
    await page.getByTestId("message").waitFor();
    assert.deepEqual(await violations(page), [], "a conversation");
    await page.goto(`${both.stage.origin}/#/chat`);
    await page.getByTestId("choose").click();
    await page.getByTestId("choose-server").first().waitFor();
    assert.deepEqual(await violations(page), [], "what a conversation may use");
    await page.goto(`${both.stage.origin}/#/approvals`);
    await page.getByTestId("once").click();
    await page.getByTestId("cancel-question").click();
    await Promise.all([call, form]);
    await leave(page);
  });
}

test("a_result_and_a_dialog_are_accessible_too", async () => {
  const page = await both.visitor.open(both.stage, "#/tools/workshop/media", { colorScheme: "dark" });
  await page.getByTestId("call").click();
  await page.getByTestId("result").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.goto(`${both.stage.origin}/#/servers`);
  const row = page.locator('[data-testid="server"][data-name="old"]');
  await row.getByTestId("menu").locator("summary").click();
  assert.deepEqual(await violations(page), [], "an open menu");
  await row.getByTestId("remove").click();
  await page.getByTestId("diff").waitFor();
  assert.deepEqual(await violations(page), [], "a dialog");
  await leave(page);
});

test("the_first_key_leads_past_the_sections", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await page.getByTestId("server").first().waitFor();
  await page.reload();
  await page.getByTestId("server").first().waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.closest("main") !== null), true);
  assert.match(page.url(), /#\/servers$/, "the page stays");
  await leave(page);
});

test("a_dialog_keeps_the_focus_and_gives_it_back", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  const opener = page.locator('[data-testid="server"][data-name="old"]').getByTestId("enable");
  await opener.focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("confirm").waitFor();
  for (let presses = 0; presses < 8; presses += 1) {
    await page.keyboard.press("Tab");
    const outside = await page.evaluate(
      () => document.activeElement !== document.body && !document.activeElement?.closest("dialog"),
    );
    assert.equal(outside, false, `after ${presses + 1} presses`);
  }
  await page.keyboard.press("Escape");
  await page.getByTestId("confirm").waitFor({ state: "detached" });
  assert.equal(await opener.evaluate((element) => element === document.activeElement), true);
  await leave(page);
});

test("the_focus_goes_on_where_what_had_it_is_gone", async () => {
  const page = await both.visitor.open(both.stage, "#/approvals");
  const focused = () => page.evaluate(() => document.activeElement?.dataset.testid ?? document.activeElement?.textContent);
  const calls = ["a.txt", "b.txt"].map((path) =>
    both.stage.api("/api/v1/calls", { tool: "workshop/erase", arguments: { path } }),
  );
  const question = (path) => page.getByTestId("question").filter({ hasText: path });
  await question("b.txt").waitFor();
  await question("a.txt").getByTestId("deny").press("Enter");
  assert.equal(await focused(), "deny-reason");
  await page.getByRole("button", { name: "Back" }).press("Enter");
  assert.equal(await focused(), "deny");
  await question("a.txt").getByTestId("once").press("Enter");
  await question("a.txt").waitFor({ state: "detached" });
  assert.equal(await focused(), "workshop/erase");
  await page.keyboard.press("Tab");
  assert.ok(await question("b.txt").evaluate((card) => card.contains(document.activeElement)), "the next question");
  await question("b.txt").getByTestId("once").press("Enter");
  await page.getByTestId("empty").waitFor();
  assert.equal(await focused(), "Approvals");
  await Promise.all(calls);

  await page.goto(`${both.stage.origin}/#/servers`);
  const row = page.locator('[data-testid="server"][data-name="old"]');
  const menu = row.getByTestId("menu").locator("summary");
  await menu.press("Enter");
  await row.getByTestId("remove").press("Enter");
  await page.getByTestId("diff").waitFor();
  await page.keyboard.press("Escape");
  await page.getByTestId("confirm").waitFor({ state: "detached" });
  assert.equal(await menu.evaluate((element) => element === document.activeElement), true);
  await leave(page);
});

test("what_has_the_focus_can_be_seen", async () => {
  const page = await both.visitor.open(both.stage, "#/servers");
  await page.getByTestId("server").first().waitFor();
  for (let presses = 0; presses < 20; presses += 1) {
    await page.keyboard.press("Tab");
    const seen = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement ?? document.body);
      return (
        document.activeElement === document.body || (outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 2)
      );
    });
    assert.ok(seen, await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 120)));
  }
  await leave(page);
});
