import assert from "node:assert/strict";
import { after, test } from "node:test";
import { guarded } from "../guarded.mjs";
import { leave, staged } from "../stage.mjs";

const both = staged();
let server = { url: "", end: () => {} };

/** Adds the servers, once the daemon is up. */
async function furnished() {
  if (server.url) return;
  server = await guarded();
  for (const [name, url] of [
    ["guarded", server.url],
    ["gone", "http://127.0.0.1:9/mcp"],
  ]) {
    assert.equal((await both.stage.api("/api/v1/servers", { name, entry: { url } })).status, 201);
  }
  await both.stage.settled("guarded", "needs_auth");
}

after(() => server.end());

test("a_server_that_needs_a_sign_in_is_connected_by_a_button_and_a_page", async () => {
  await furnished();
  const page = await both.visitor.open(both.stage, "#/servers/guarded");
  await page.getByTestId("reason").getByText("toolrack login guarded").waitFor();
  const opened = page.context().waitForEvent("page");
  await page.getByTestId("connect").click();
  const theirs = await opened;
  // The browser must not send the dashboard's address, which contains the token, to another server.
  assert.equal(await theirs.evaluate("document.referrer"), "");
  assert.equal(await theirs.evaluate("window.opener"), null);
  await page.getByTestId("sign-in-page").waitFor();
  await theirs.getByRole("link", { name: "Agree" }).click();
  await theirs.getByText("You can close this page").waitFor();
  await page.locator('[data-testid="server"][data-name="guarded"][data-status="connected"]').waitFor();
  await page.getByTestId("tools").getByText("secret-tool").waitFor();
  await leave(page);
});

test("a_browser_on_another_machine_ends_up_at_an_address_that_is_pasted", async () => {
  const far = await guarded();
  try {
    assert.equal((await both.stage.api("/api/v1/servers", { name: "far", entry: { url: far.url } })).status, 201);
    await both.stage.settled("far", "needs_auth");
    const page = await both.visitor.open(both.stage, "#/servers/far");
    const opened = page.context().waitForEvent("page");
    await page.getByTestId("connect").click();
    const theirs = await opened;
    // The browser on the other machine cannot reach the daemon, but shows the address.
    const back = await theirs.getByRole("link", { name: "Agree" }).getAttribute("href");
    await theirs.close();
    const field = page.getByTestId("sign-in-address");
    await field.fill(back.replace(/state=[^&]+/, "state=another"));
    await page.getByTestId("sign-in-paste").click();
    await page.getByText("not the redirect address of the sign-in page").waitFor();
    await field.fill(back);
    await page.getByTestId("sign-in-paste").click();
    await page.locator('[data-testid="server"][data-name="far"][data-status="connected"]').waitFor();
    // The address works only once.
    const again = await both.stage.api("/api/v1/servers/far/sign-in/address", { address: back });
    assert.deepEqual([again.status, again.body.error.code], [404, "NOT_FOUND"]);
    await leave(page);
  } finally {
    far.end();
  }
});

test("a_failed_sign_in_says_why", async () => {
  await furnished();
  const { stage } = both;
  const local = await stage.api("/api/v1/servers/workshop/sign-in", {});
  assert.deepEqual([local.status, local.body.error.code], [409, "NO_SIGN_IN"]);
  const gone = await stage.api("/api/v1/servers/gone/sign-in", {});
  assert.deepEqual([gone.status, gone.body.error.code], [502, "SIGN_IN_UNAVAILABLE"]);
  assert.equal((await stage.api("/api/v1/servers/nobody/sign-in", {})).status, 404);
  // The daemon refuses a request with another state.
  const first = await stage.api("/api/v1/servers/guarded/sign-in", {});
  assert.equal(first.status, 202);
  const asked = new URL(first.body.page);
  const back = new URL(asked.searchParams.get("redirect_uri"));
  back.search = "?code=stolen&state=another";
  assert.equal((await fetch(back)).status, 404);
  assert.equal((await stage.api("/api/v1/servers/guarded/sign-in")).body.state, "waiting");
  // A new sign-in replaces the first one.
  const second = await stage.api("/api/v1/servers/guarded/sign-in", {});
  assert.notEqual(second.body.page, first.body.page);
  back.search = `?code=late&state=${asked.searchParams.get("state")}`;
  await assert.rejects(fetch(back));
});
