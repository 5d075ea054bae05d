// Administrators look after the members of their tenant, and each member after what opens the team in their name.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";
import { AXE, BINARY, PATIENCE } from "../stage.mjs";
import { withTeam } from "../team.mjs";

const { team, visitor } = withTeam({ browser: true });

/** @param {string} token */
const bearer = (token) => ({ headers: { authorization: `Bearer ${token}` } });

/** The status of an answer. @param {string} path @param {string} token */
const status = async (path, token) => (await fetch(`${team.origin}${path}`, bearer(token))).status;

/** Waits until the team does not let a token in. @param {string} path @param {string} token */
async function refused(path, token) {
  for (const end = Date.now() + 8_000; (await status(path, token)) !== 401; ) assert.ok(Date.now() < end, path);
}

/** The list of a member. @param {any} page @param {string} address */
const memberOf = (page, address) => page.locator(`[data-testid="member"][data-name="${address}"]`);

/** Fails when the page cannot be used by every user. @param {any} page */
async function accessible(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() =>
    globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }),
  );
  const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 140)).join(" ")}`);
  assert.deepEqual(violations, []);
}

/**
 * Has the person of a page allow a client, which then has a token.
 * @param {any} page
 * @param {string} name
 * @returns {Promise<string>} the access token
 */
async function allows(page, name) {
  const back = "http://127.0.0.1:9/back";
  const post = (/** @type {string} */ path, /** @type {string} */ kind, /** @type {string} */ body) =>
    fetch(`${team.origin}${path}`, { method: "POST", headers: { "content-type": kind }, body });
  const registered = await post("/oauth/register", "application/json", JSON.stringify({ client_name: name, redirect_uris: [back] }));
  const { client_id: client } = await registered.json();
  const verifier = "v".repeat(64);
  const challenge = createHash("sha256").update(verifier).digest("base64url");
  const asks = new URLSearchParams({
    response_type: "code",
    client_id: client,
    redirect_uri: back,
    state: "s",
    scope: "mcp",
    code_challenge: challenge,
    code_challenge_method: "S256",
    resource: `${team.origin}/mcp`,
  });
  const consent = await page.context().newPage();
  await consent.goto(`${team.origin}/oauth/authorize?${asks}`);
  const sent = consent.waitForRequest((/** @type {any} */ request) => request.url().startsWith(back));
  await consent.locator('button[value="allow"]').click({ noWaitAfter: true });
  const code = new URL((await sent).url()).searchParams.get("code") ?? "";
  await consent.close();
  const form = new URLSearchParams({ grant_type: "authorization_code", client_id: client, code, redirect_uri: back, code_verifier: verifier, resource: `${team.origin}/mcp` });
  const answer = await post("/oauth/token", "application/x-www-form-urlencoded", form.toString());
  const { access_token: token } = await answer.json();
  assert.ok(token);
  return token;
}

/** Asks the MCP endpoint something, and gives back the status. @param {string} token */
async function mcp(token) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", accept: "application/json, text/event-stream" };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "a client", version: "1" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  const answer = await fetch(`${team.origin}/mcp`, { method: "POST", headers, body });
  await answer.body?.cancel();
  return answer.status;
}

test("a_member_makes_a_token_that_is_shown_once_and_revokes_it", async () => {
  const page = await team.signedIn(visitor, "ann@acme.example", "#/access");
  assert.equal(await page.getByTestId("nav-people").count(), 0, "she is no administrator");
  await page.getByTestId("no-clients").waitFor();
  await accessible(page);
  await page.getByTestId("token-label").fill("nightly job");
  await page.getByTestId("token-days").selectOption("7");
  await page.getByTestId("make-token").click();
  const secret = await page.getByTestId("made-secret").innerText();
  assert.match(secret, /^trk_[0-9a-f]{64}$/);
  await accessible(page);
  assert.equal(await status("/api/v1/me", secret), 200);
  await page.keyboard.press("Escape");
  await page.getByTestId("made-token").waitFor({ state: "detached" });
  const row = page.locator('[data-testid="token"][data-status="personal"]');
  await row.getByText("nightly job").waitFor();
  await page.reload();
  await row.waitFor();
  assert.doesNotMatch(await page.content(), new RegExp(secret));
  await row.getByTestId("revoke-token").click();
  await page.getByTestId("confirm-action").click();
  await row.waitFor({ state: "detached" });
  await refused("/api/v1/me", secret);
  await page.context().close();
});

test("a_member_revokes_a_client_that_acts_in_their_name", async () => {
  const page = await team.signedIn(visitor, "ann@acme.example");
  const token = await allows(page, "A curious client");
  assert.equal(await mcp(token), 200);
  await page.getByTestId("nav-access").click();
  const row = page.getByTestId("client");
  await row.getByText("A curious client").waitFor();
  assert.match(await row.innerText(), /127\.0\.0\.1:9/);
  await accessible(page);
  await row.getByTestId("revoke-client").click();
  await page.getByTestId("confirm-action").click();
  await page.getByTestId("no-clients").waitFor();
  for (const end = Date.now() + 8_000; (await mcp(token)) !== 401; ) assert.ok(Date.now() < end, "it still acts");
  await page.context().close();
});

test("signing_out_everywhere_ends_the_other_browsers_too", async () => {
  const other = await team.signedIn(visitor, "amy@acme.example");
  const one = await team.signedIn(visitor, "amy@acme.example", "#/access");
  await one.locator('[data-testid="token"][data-status="browser"]').nth(1).waitFor();
  await one.getByTestId("sign-out-everywhere").click();
  await one.getByTestId("confirm-action").click();
  await one.getByTestId("sign-in-link").waitFor();
  await other.getByTestId("sign-in-link").waitFor();
  for (const page of [one, other]) await page.context().close();
});

test("an_administrator_changes_roles_and_removes_members_of_their_own_tenant", async () => {
  const zoe = await team.signedIn(visitor, "zoe@acme.example");
  const bob = await team.signedIn(visitor, "bob@bolt.example");
  const page = await team.signedIn(visitor, "ada@acme.example");
  await page.getByTestId("nav-people").click();
  const row = memberOf(page, "zoe@acme.example");
  await row.waitFor();
  assert.equal(await memberOf(page, "bob@bolt.example").count(), 0);
  await accessible(page);
  await row.getByTestId("role").selectOption("auditor");
  await row.and(page.locator('[data-status="auditor"]')).waitFor();
  const role = () => zoe.evaluate(() => fetch("/api/v1/me").then((answer) => answer.json()).then((me) => me.role));
  for (const end = Date.now() + PATIENCE; (await role()) !== "auditor"; ) assert.ok(Date.now() < end);
  await zoe.reload();
  await zoe.getByTestId("nav-audit").waitFor();
  // The role stays when she signs in again, whatever the provider says.
  await zoe.getByTestId("sign-out").click();
  await zoe.context().close();
  const again = await team.signedIn(visitor, "zoe@acme.example");
  await again.getByTestId("nav-audit").waitFor();

  await row.getByTestId("show-access").click();
  await row.locator('[data-testid="token"][data-status="browser"]').first().waitFor();
  await accessible(page);
  await row.getByTestId("revoke-token").first().click();
  await page.getByTestId("confirm-action").click();
  await row.getByTestId("no-tokens").waitFor();
  await again.getByTestId("sign-in-link").waitFor();
  await row.getByTestId("remove-member").click();
  await page.getByTestId("confirm-action").click();
  await row.waitFor({ state: "detached" });
  for (const open of [again, bob, page]) await open.context().close();
});

test("the_last_administrator_is_told_why_they_stay", async () => {
  const page = await team.signedIn(visitor, "ada@acme.example", "#/people");
  const row = memberOf(page, "ada@acme.example");
  await row.getByTestId("remove-member").click();
  await page.getByTestId("confirm-action").click();
  await page.locator('[data-testid="trouble"][data-code="LAST_ADMIN"]').getByText("only administrator").waitFor();
  await page.keyboard.press("Escape");
  await row.getByTestId("role").selectOption("user");
  await row.locator('[data-code="LAST_ADMIN"]').waitFor();
  assert.equal(await row.getByTestId("role").inputValue(), "admin");
  await page.context().close();
});

test("login_to_a_team_makes_its_gateway_a_server_of_the_user", async () => {
  const home = join(team.folder, "of-a-user");
  const env = { HOME: home, TOOLRACK_HOME: home, PATH: process.env.PATH, TMPDIR: team.folder };
  const words = ["--no-daemon", "login", "--to", team.origin];
  const child = spawn(BINARY, words, { cwd: team.folder, env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((end) => child.on("exit", end));
  let output = "";
  const place = await new Promise((found, failed) => {
    child.stderr.on("data", (piece) => {
      output += piece;
      const address = /Sign in here: (\S+)\n/.exec(output)?.[1];
      if (address) found(address);
    });
    child.on("exit", (code) => failed(new Error(`it ended with ${code}: ${output}`)));
  });
  const page = await team.signedIn(visitor, "ann@acme.example");
  await page.goto(place);
  await page.locator('button[value="allow"]').click({ noWaitAfter: true });
  assert.equal(await ended, 0, output);
  assert.match(output, /added the http server team/);
  // The team is reached through this process, which must not block.
  const call = ["--no-daemon", "call", "team/mcp__acme-shop__echo", "text=from a terminal"];
  const called = spawn(BINARY, call, { cwd: team.folder, env, stdio: ["ignore", "pipe", "inherit"] });
  let out = "";
  called.stdout.on("data", (piece) => (out += piece));
  assert.equal(await new Promise((end) => called.on("exit", end)), 0);
  assert.match(out, /from a terminal/);
  await page.context().close();
});
