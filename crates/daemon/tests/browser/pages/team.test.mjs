// People of a team sign in with their provider, and see only their own servers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { audit, withTeam } from "../team.mjs";

const { team, visitor } = withTeam({ browser: true });

/** The session cookie of a page. @param {any} page */
async function sessionOf(page) {
  const cookies = await page.context().cookies(team.origin);
  return cookies.find((/** @type {{name: string}} */ { name }) => name === "toolrack");
}

test("people_of_two_tenants_sign_in_and_each_sees_the_servers_of_their_own", async () => {
  for (const [address, tenant, other] of [
    ["ann@acme.example", "acme", "bolt"],
    ["bob@bolt.example", "bolt", "acme"],
  ]) {
    const page = await team.signedIn(visitor, address);
    const [name] = address.split("@");
    await page.getByRole("heading", { name: `Hello, ${name}` }).waitFor();
    assert.match(await page.getByTestId("account").innerText(), new RegExp(`${name}\\s+${tenant}`));
    const servers = page.getByTestId("home-servers");
    await servers.getByText(`${tenant}-shop`).waitFor();
    assert.doesNotMatch(await page.content(), new RegExp(`${other}-shop`));
    assert.equal(await page.getByTestId("endpoint").innerText(), `${team.origin}/mcp`);
    const profile = page.getByTestId("profile").and(page.locator('[data-name="few"]'));
    assert.equal(await profile.locator("code").innerText(), `${team.origin}/p/few/mcp`);
    // The page does not offer sections that the person may not see.
    assert.equal(await page.getByTestId("nav-audit").count(), 0);
    assert.equal(await page.getByTestId("nav-config").count(), 0);
    await page.getByTestId("nav-tools").click();
    await page.getByText("echo").first().waitFor();
    await page.context().close();
  }
});

test("an_operator_sees_the_live_overview_of_the_tenant", async () => {
  const page = await team.signedIn(visitor, "olga@acme.example");
  await page.getByTestId("figures").waitFor();
  await page.getByTestId("connection").and(page.locator('[data-status="live"]')).waitFor();
  assert.equal(await page.getByTestId("nav-people").count(), 0);
  await page.context().close();
});

test("a_member_adds_and_removes_a_server_of_their_own_and_no_other_sees_it", async () => {
  const [page, other] = [await team.signedIn(visitor, "ann@acme.example"), await team.signedIn(visitor, "eve@acme.example")];
  const own = page.getByTestId("own-servers");
  await own.getByTestId("own-name").fill("mine");
  await own.getByTestId("own-url").fill("http://10.1.2.3/mcp");
  await own.getByTestId("add-own-server").click();
  await own.getByText("says where servers of members may be").waitFor();
  await own.getByTestId("own-url").fill("http://127.0.0.1:9/mcp");
  await own.getByTestId("own-header").fill("Authorization");
  await own.getByTestId("own-value").fill("Bearer of ann alone");
  await own.getByTestId("add-own-server").click();
  await own.locator('[data-testid=own-server][data-name=mine]').waitFor();
  // Its state comes over the event stream: nothing listens at its address.
  const servers = page.getByTestId("home-servers");
  const mine = servers.locator("[data-name=mine]");
  await mine.getByTestId("reconnect-own").hover();
  await page.mouse.down();
  // The button stays where it is pressed while attempts begin and fail.
  const attempts = mine.evaluate((row) => new Promise((seen) => {
    let changes = 0;
    const look = () => (changes += 1) === 2 && seen(changes);
    new MutationObserver(look).observe(row, { characterData: true, childList: true, subtree: true });
  }));
  await page.evaluate(() => fetch("/api/v1/servers/mine/reconnect", { method: "POST" }));
  await attempts;
  const reconnected = page.waitForResponse(/\/api\/v1\/servers\/mine\/reconnect$/);
  await page.mouse.up();
  assert.equal((await reconnected).status(), 202);
  assert.equal(await servers.locator("[data-name=acme-shop]").getByTestId("reconnect-own").count(), 0);
  assert.doesNotMatch(await page.content(), /Bearer of ann/);
  await other.getByTestId("own-servers").waitFor();
  assert.equal(await other.locator("[data-name=mine]").count(), 0);
  await own.getByTestId("remove-own-server").click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.locator("[data-name=mine]").first().waitFor({ state: "detached" });
  for (const one of [page, other]) await one.context().close();
});

test("the_place_that_was_asked_for_is_there_after_the_sign_in", async () => {
  const page = await team.signedIn(visitor, "ann@acme.example", "#/tools?q=echo");
  await page.waitForURL(/#\/tools\?q=echo$/);
  await page.context().close();
});

test("no_script_sees_the_session_and_it_ends_with_the_sign_out", async () => {
  const page = await team.signedIn(visitor, "ann@acme.example");
  assert.equal(await page.evaluate(() => document.cookie), "");
  const cookie = await sessionOf(page);
  assert.ok(cookie.httpOnly && cookie.sameSite === "Lax", JSON.stringify(cookie));
  const asks = (method = "GET", headers = {}) =>
    fetch(`${team.origin}/api/v1/me`, { method, headers: { cookie: `toolrack=${cookie.value}`, ...headers } });
  assert.equal((await asks()).status, 200);
  await page.getByTestId("sign-out").click();
  await page.getByTestId("sign-in-link").waitFor();
  const end = Date.now() + 8_000;
  while ((await asks()).status !== 401) assert.ok(Date.now() < end, "the old session still counts");
  await page.context().close();
});

test("a_removed_person_is_out_within_a_second", async () => {
  const page = await team.signedIn(visitor, "zoe@acme.example");
  const cookie = await sessionOf(page);
  const asks = () => fetch(`${team.origin}/api/v1/me`, { headers: { cookie: `toolrack=${cookie.value}` } });
  assert.equal((await asks()).status, 200);
  team.run("team", "remove", "zoe@acme.example", "--issuer", team.issuer);
  const begun = Date.now();
  while ((await asks()).status !== 401) assert.ok(Date.now() - begun < 2_000, "the session still counts");
  await page.getByTestId("sign-in-link").waitFor();
  await page.context().close();
});

/** What a browser sends for its session. @param {any} page */
const cookieOf = async (page) => `toolrack=${(await sessionOf(page)).value}`;

/** Reads a stream of events up to one. @param {Response} response @param {string} name */
async function upTo(response, name) {
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes(`event: ${name}\n`)) return;
  }
  assert.fail(`the stream ended before ${name}: ${text}`);
}

test("a_call_of_a_removed_person_ends_and_its_answer_says_where_to_sign_in", async () => {
  const page = await team.signedIn(visitor, "yan@acme.example");
  const operator = await team.signedIn(visitor, "olga@acme.example");
  const [cookie, seeing] = [await cookieOf(page), await cookieOf(operator)];
  const events = await fetch(`${team.origin}/api/v1/events`, { headers: { cookie: seeing } });
  const body = JSON.stringify({ tool: "acme-shop/slow", arguments: { pause: 5_000 }, id: "1", approved: true });
  const headers = { cookie, origin: team.origin, "content-type": "application/json" };
  const called = fetch(`${team.origin}/api/v1/calls`, { method: "POST", headers, body });
  await upTo(events, "tool_started");
  team.run("team", "remove", "yan@acme.example", "--issuer", team.issuer);
  const answer = await called;
  assert.equal(answer.status, 401);
  assert.equal((await answer.json()).error.sign_in, "/sign-in");
  await page.getByTestId("sign-in-link").waitFor();
  for (const open of [page, operator]) await open.context().close();
});

test("a_page_whose_request_was_refused_stays_open_if_its_session_still_counts", async () => {
  const page = await team.signedIn(visitor, "ann@acme.example");
  const refusal = { error: { code: "UNAUTHORIZED", message: "the rights of its member changed", sign_in: "/sign-in" } };
  let refused = 0;
  const refuse = (/** @type {any} */ route) => {
    refused += 1;
    return route.fulfill({ status: 401, json: refusal });
  };
  await page.route("**/api/v1/tools*", refuse, { times: 1 });
  await page.getByTestId("nav-tools").click();
  await page.getByText("echo").first().waitFor();
  assert.equal(refused, 1);
  assert.equal(await page.getByTestId("sign-in-link").count(), 0);
  await page.context().close();
});

test("a_cookie_changes_nothing_from_another_page_and_opens_no_mcp_endpoint", async () => {
  const page = await team.signedIn(visitor, "olga@acme.example");
  const cookie = await sessionOf(page);
  const send = (path, headers = {}) =>
    fetch(`${team.origin}${path}`, {
      method: "POST",
      headers: { cookie: `toolrack=${cookie.value}`, "content-type": "application/json", ...headers },
      body: "{}",
    });
  const place = "/api/v1/servers/acme-shop/reconnect";
  assert.equal((await send(place)).status, 403);
  assert.equal((await send(place, { origin: "null" })).status, 403);
  assert.equal((await send(place, { origin: "http://127.0.0.1:1" })).status, 403);
  assert.equal((await send(place, { origin: team.origin, "sec-fetch-site": "same-site" })).status, 403);
  assert.notEqual((await send(place, { origin: team.origin })).status, 403);
  assert.equal((await send("/mcp", { origin: team.origin })).status, 401);
  // The secret of the cookie does not work as a token.
  const bearer = { authorization: `Bearer ${cookie.value}` };
  assert.equal((await fetch(`${team.origin}/api/v1/me`, { headers: bearer })).status, 401);
  assert.ok(audit(team).some((row) => row.kind === "refused_at_the_door" && row.code === "cross_site"));
  await page.context().close();
});

test("a_stranger_is_told_whom_to_ask", async () => {
  const page = await (await team.browser(visitor)).newPage();
  await page.goto(team.origin);
  await page.getByTestId("sign-in-link").click();
  await team.atProvider(page, "eve@evil.example");
  await page.getByText("eve@evil.example").waitFor();
  await page.getByText(/Ask the operator/).waitFor();
  await page.context().close();
});
