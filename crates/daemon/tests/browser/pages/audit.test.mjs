import assert from "node:assert/strict";
import { test } from "node:test";
import { leave, staged } from "../stage.mjs";

const both = staged();

/** Loads the log again until the row is there, which the daemon writes a moment after the call. @param {any} page @param {any} wanted */
async function written(page, wanted) {
  for (let tries = 0; tries < 100 && (await wanted.count()) === 0; tries += 1) {
    await page.getByTestId("audit-again").click();
    await page.waitForTimeout(100);
  }
  return wanted.first();
}

/** A row of a call of this tool. @param {any} page @param {string} tool @param {string} status */
function row(page, tool, status) {
  const rows = page.locator(`[data-testid="audit-row"][data-status="${status}"]`);
  return written(page, rows.filter({ hasText: `workshop/${tool}` }));
}

const echo = (text) => ({ tool: "workshop/echo", arguments: { text }, approved: true });

test("a_call_is_written_down_with_who_made_it_and_what_it_was", async () => {
  const { body } = await both.stage.api("/api/v1/calls", echo("<img src=x onerror=alert(1)>"));
  assert.equal(body.is_error, false, JSON.stringify(body));
  const page = await both.visitor.open(both.stage, "#/audit");
  const made = await row(page, "echo", "ok");
  // With the keyboard, as a user can.
  await made.locator("summary").focus();
  await page.keyboard.press("Enter");
  await made.getByText("confirmed", { exact: true }).waitFor();
  assert.match(await made.innerText(), /daemon[\s\S]*[0-9a-f]{64}/);
  assert.ok(!(await made.innerText()).includes("onerror"), "arguments are known by their hash alone");
  await leave(page);
});

test("what_was_not_allowed_is_found_by_itself", async () => {
  const call = both.stage.api("/api/v1/calls", { tool: "workshop/erase", arguments: {}, timeout_ms: 60_000 });
  const page = await both.visitor.open(both.stage, "#/approvals");
  await page.getByTestId("deny").click();
  await page.getByTestId("deny-send").click();
  await call;
  await page.goto(`${both.stage.origin}/#/audit`);
  await row(page, "erase", "declined");
  await page.getByTestId("audit-denied").check();
  await page.locator('[data-testid="audit-row"][data-status="ok"]').first().waitFor({ state: "detached" });
  assert.deepEqual(await page.getByTestId("audit-row").evaluateAll((rows) => rows.map((row) => row.dataset.status)), [
    "declined",
  ]);
  assert.match(page.url(), /denied=1/, "what is filtered stands in the address");
  await page.getByTestId("audit-server").selectOption("broken");
  await page.getByTestId("empty").getByText("Nothing like this").waitFor();
  await page.getByTestId("audit-denied").uncheck();
  await page.locator('[data-testid="audit-row"][data-status="failed"]').first().waitFor();
  await leave(page);
});

test("older_rows_are_on_other_pages", async () => {
  for (let number = 0; number < 110; number += 1) await both.stage.api("/api/v1/calls", echo(String(number)));
  const page = await both.visitor.open(both.stage, "#/audit");
  const toOlder = await written(page, page.getByTestId("audit-older"));
  const newest = async () => Number(await page.getByTestId("audit-row").first().getAttribute("data-seq"));
  const gone = (seq) => page.locator(`[data-testid="audit-row"][data-seq="${seq}"]`).waitFor({ state: "detached" });
  const first = await newest();
  await toOlder.click();
  await gone(first);
  const older = await newest();
  assert.ok(older < first);
  await page.getByRole("link", { name: "The newest" }).click();
  await gone(older);
  assert.ok((await newest()) >= first);
  await page.getByRole("link", { name: "The newest" }).waitFor({ state: "detached" });
  assert.match(both.stage.run("audit", "verify"), /nothing was changed/, "while the daemon writes");
  await leave(page);
});
