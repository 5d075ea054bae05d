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
  // The page of another server learns nothing of the dashboard's address, in which its key is.
  assert.equal(await theirs.evaluate("document.referrer"), "");
  assert.equal(await theirs.evaluate("window.opener"), null);
  await page.getByTestId("sign-in-page").waitFor();
  await theirs.getByRole("link", { name: "Agree" }).click();
  await theirs.getByText("You can close this page").waitFor();
  await page.locator('[data-testid="server"][data-name="guarded"][data-status="connected"]').waitFor();
  await page.getByTestId("tools").getByText("secret-tool").waitFor();
  await leave(page);
});

test("who_cannot_be_signed_in_to_is_told_why", async () => {
  await furnished();
  const { stage } = both;
  const local = await stage.api("/api/v1/servers/workshop/sign-in", {});
  assert.deepEqual([local.status, local.body.error.code], [409, "NO_SIGN_IN"]);
  const gone = await stage.api("/api/v1/servers/gone/sign-in", {});
  assert.deepEqual([gone.status, gone.body.error.code], [502, "SIGN_IN_UNAVAILABLE"]);
  assert.equal((await stage.api("/api/v1/servers/nobody/sign-in", {})).status, 404);
  // Who comes to the daemon's address with another state is not heard.
  const first = await stage.api("/api/v1/servers/guarded/sign-in", {});
  assert.equal(first.status, 202);
  const asked = new URL(first.body.page);
  const back = new URL(asked.searchParams.get("redirect_uri"));
  back.search = "?code=stolen&state=another";
  assert.equal((await fetch(back)).status, 404);
  assert.equal((await stage.api("/api/v1/servers/guarded/sign-in")).body.state, "waiting");
  // Beginning anew gives up what was begun: nobody waits there any more.
  const second = await stage.api("/api/v1/servers/guarded/sign-in", {});
  assert.notEqual(second.body.page, first.body.page);
  back.search = `?code=late&state=${asked.searchParams.get("state")}`;
  await assert.rejects(fetch(back));
});
