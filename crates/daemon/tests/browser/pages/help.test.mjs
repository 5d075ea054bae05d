// The guide under Help: every page opens, links stay in the dashboard, a search finds, and other pages lead here.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { listed } from "../../../assets/help.js";
import { leave, staged } from "../stage.mjs";

const both = staged();

const SUMMARY = readFileSync(join(import.meta.dirname, "../../../help/SUMMARY.md"), "utf8");
const PAGES = listed(SUMMARY).map(({ id }) => id);

/** Returns the title of a page from its file. @param {string} id */
const titleOf = (id) => {
  const text = readFileSync(join(import.meta.dirname, `../../../help/${id}.md`), "utf8");
  return text.split("\n", 1)[0].replace(/^# /, "").replaceAll("`", "");
};

/** Waits until a page of the guide is shown. @param {any} page @param {string} id */
const shown = (page, id) => page.locator(`[data-testid="guide"][data-name="${id}"]`);

test("every_page_of_the_summary_opens_from_the_list", async () => {
  const page = await both.visitor.open(both.stage);
  await page.getByTestId("nav-help").click();
  await page.getByTestId("help-list").waitFor();
  const names = await page.getByTestId("help-page").evaluateAll((links) => links.map((link) => link.dataset.name));
  assert.deepEqual(names, PAGES);
  for (const id of PAGES) {
    await page.locator(`[data-testid="help-page"][data-name="${id}"]`).click();
    await shown(page, id).waitFor();
    assert.equal(await page.locator("h1").innerText(), titleOf(id));
    assert.equal(await page.getByTestId("guide").locator("h1").count(), 0, "the title stands in the head");
    await page.getByRole("link", { name: "‹ Help" }).click();
  }
  await leave(page);
});

test("the_pages_follow_each_other", async () => {
  const page = await both.visitor.open(both.stage, `#/help/${PAGES[0]}`);
  await shown(page, PAGES[0]).waitFor();
  assert.equal(await page.getByTestId("help-before").count(), 0);
  for (const id of PAGES.slice(1)) {
    await page.getByTestId("help-after").click();
    await shown(page, id).waitFor();
    assert.equal(await page.evaluate(() => scrollY), 0, `${id} begins at its beginning`);
  }
  assert.equal(await page.getByTestId("help-after").count(), 0);
  await leave(page);
});

test("a_link_to_a_heading_of_another_page_opens_there_and_goes_back", async () => {
  const page = await both.visitor.open(both.stage, "#/help/troubleshooting");
  await shown(page, "troubleshooting").getByRole("link", { name: "the working folder" }).click();
  await shown(page, "servers").waitFor();
  assert.match(page.url(), /#\/help\/servers\/the-working-folder$/);
  await page.waitForFunction(() => document.activeElement?.id === "the-working-folder");
  const top = await page.locator("#the-working-folder").evaluate((heading) => heading.getBoundingClientRect().top);
  // A browser scrolls to whole pixels.
  assert.ok(top > -1 && top < 400, `the heading is at ${top}`);
  await page.goBack();
  await shown(page, "troubleshooting").waitFor();
  await leave(page);
});

test("a_heading_has_an_address_and_the_page_lists_its_headings", async () => {
  const page = await both.visitor.open(both.stage, "#/help/policy");
  const contents = page.getByRole("navigation", { name: "On this page" });
  await contents.getByRole("link", { name: "The audit log" }).click();
  await page.waitForFunction(() => document.activeElement?.id === "the-audit-log");
  const anchor = page.locator("#the-audit-log a");
  assert.equal(await anchor.getAttribute("href"), "#/help/policy/the-audit-log");
  await leave(page);
});

test("links_out_of_the_guide_open_in_a_tab_of_their_own", async () => {
  const page = await both.visitor.open(both.stage, "#/help/servers");
  const schema = shown(page, "servers").getByRole("link", { name: "mcp.schema.json", exact: true });
  assert.equal(await schema.getAttribute("target"), "_blank");
  assert.equal(await schema.getAttribute("rel"), "noopener noreferrer");
  await leave(page);
});

test("code_can_be_read_and_copied", async () => {
  const page = await both.visitor.open(both.stage, "#/help/library");
  const code = shown(page, "library").getByTestId("code-block").first();
  assert.match(await code.innerText(), /^rust/);
  assert.doesNotMatch(await code.getByTestId("code").innerText(), /# async fn/);
  assert.match(await code.getByTestId("code").innerText(), /Host::builder\(\)/);
  await code.getByRole("button").click();
  await page.getByTestId("said").getByText("Copied").waitFor();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /Host::builder\(\)/);
  await leave(page);
});

test("a_search_finds_headings_and_text_and_leads_there", async () => {
  const page = await both.visitor.open(both.stage, "#/help");
  await page.getByTestId("search").fill("audit log");
  const hits = page.getByTestId("help-hits");
  await hits.waitFor();
  const first = hits.getByTestId("help-hit").first();
  assert.equal(await first.innerText(), "Policy, approvals and audit › The audit log");
  assert.ok((await hits.locator("mark").count()) > 0);
  await first.click();
  await shown(page, "policy").waitFor();
  await page.waitForFunction(() => document.activeElement?.id === "the-audit-log");
  assert.equal(await page.getByTestId("search").inputValue(), "", "what was found is shown, and no search");
  await page.goBack();
  await hits.waitFor();
  assert.equal(await page.getByTestId("search").inputValue(), "audit log");
  await page.getByTestId("search").fill("no such words anywhere");
  await page.getByText("Nothing found").waitFor();
  await page.getByTestId("search").fill("");
  await page.getByTestId("help-list").waitFor();
  await leave(page);
});

test("a_page_that_is_not_there_says_so_and_lists_those_that_are", async () => {
  const page = await both.visitor.open(both.stage, "#/help/nothing");
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  await page.getByTestId("help-list").waitFor();
  await leave(page);
});

test("other_pages_lead_to_what_the_guide_says_of_them", async () => {
  const page = await both.visitor.open(both.stage);
  const ways = {
    "#/": "start",
    "#/chat": "agents",
    "#/servers": "servers",
    "#/servers/broken/health": "troubleshooting",
    "#/add/form": "servers",
    "#/tools": "policy",
    "#/approvals": "policy",
    "#/trust": "trust",
    "#/sessions": "agents",
    "#/audit": "policy",
    "#/config": "servers",
  };
  for (const [place, id] of Object.entries(ways)) {
    await page.goto(`${both.stage.origin}/${place}`);
    await page.getByTestId("help-link").first().click();
    await shown(page, id).waitFor();
  }
  await leave(page);
});

test("the_guide_needs_no_other_machine_and_is_there_when_the_daemon_answers_again", async () => {
  const page = await both.visitor.open(both.stage, "#/");
  await page.route("**/assets/help/trust.md", (route) => route.abort());
  await page.goto(`${both.stage.origin}/#/help/trust`);
  const trouble = page.getByTestId("trouble");
  await trouble.waitFor();
  await page.unroute("**/assets/help/trust.md");
  await trouble.getByRole("button").click();
  await shown(page, "trust").waitFor();
  // The browser reports the blocked file.
  page.wrong = page.wrong.filter((what) => !/ERR_FAILED/.test(what));
  await leave(page);
});
