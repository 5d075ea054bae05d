// Attacks on the people of a team who sign in in a browser, and on the sessions that they have there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withTeam } from "../team.mjs";
import { Agent, Client, bearer, fields, mcp, opens, refused, told, trap } from "../thief.mjs";

const { team, visitor } = withTeam({ browser: true });

const place = (/** @type {string} */ path) => `${team.origin}${path}`;

/** Comes back from the provider with these parameters. @param {Agent} agent @param {Record<string, string>} parameters */
const back = (agent, parameters) => agent.go(place(`/sign-in/back?${new URLSearchParams(parameters)}`));

/** Begins a sign-in, and stops where the provider sends the browser back. @param {Agent} agent @param {string} address */
async function stopped(agent, address) {
  const begun = await agent.go(place("/sign-in"));
  const { url } = await agent.through(begun, address, (url) => url.pathname === "/sign-in/back");
  return url;
}

test("no_sign_in_leads_to_another_site", async () => {
  const ways = [
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/%09/evil.example\t",
    "/\t/evil.example",
    "/\r\nLocation: https://evil.example",
    "https://evil.example/",
    "https:evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "@evil.example",
    ".evil.example",
    "/.//evil.example",
    "/a/..//evil.example",
    `${team.origin}.evil.example/`,
    `${team.origin}@evil.example/`,
    "/sign-in?to=//evil.example",
    "/sign-out",
  ];
  for (const to of ways) {
    const agent = new Agent(team);
    await refused(await agent.go(place(`/sign-in?to=${encodeURIComponent(to)}`)), 400, { what: to });
    assert.equal(agent.jar(team.origin).size, 0, to);
  }
  await refused(await new Agent(team).go(place("/sign-in?to=/&to=//evil.example")), 400);
  await told(team, "open_redirect");
  // What only looks like it stays here.
  for (const to of ["/?to=https://evil.example", "/%2f/evil.example", "/%5cevil.example"]) {
    const { url } = await new Agent(team).signIn("ann@acme.example", to);
    assert.equal(url.origin, team.origin, to);
  }
});

test("no_sign_out_leads_to_another_site", async () => {
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  const answer = await agent.form("/sign-out", { to: "//evil.example" });
  assert.equal(new URL(String(answer.headers.get("location")), team.origin).href, place("/"));
});

test("a_sign_in_that_another_browser_began_signs_in_no_one", async () => {
  const [thief, victim] = [new Agent(team), new Agent(team)];
  const url = await stopped(thief, "eve@acme.example");
  // Login CSRF: the victim is to be signed in as the attacker.
  await refused(await victim.go(url), 400, { what: "without a sign-in" });
  await victim.go(place("/sign-in"));
  await refused(await victim.go(url), 400, { what: "with a sign-in of their own", secrets: [String(url.searchParams.get("code"))] });
  assert.equal(victim.session, undefined);
  await told(team, "wrong_browser");
});

test("a_state_that_was_changed_or_is_another_s_signs_in_no_one", async () => {
  const agent = new Agent(team);
  const url = await stopped(agent, "ann@acme.example");
  const [code, state, iss] = ["code", "state", "iss"].map((name) => String(url.searchParams.get(name)));
  const [number, , seal] = state.split(".");
  const elsewhere = Buffer.from("//evil.example").toString("base64url");
  for (const other of ["", state.toUpperCase(), `${state}.`, `${number}.${elsewhere}.${seal}`, `${number}..`, "a.b.c", "."]) {
    await refused(await back(agent, { code, state: other, iss }), 400, { what: other, secrets: [code] });
  }
  assert.equal(agent.session, undefined);
  const twice = `/sign-in/back?${new URLSearchParams({ code, state, iss })}&state=${state}`;
  await refused(await agent.go(place(twice)), 400);
  assert.equal((await agent.go(url)).status, 303);
});

test("an_answer_of_the_provider_counts_once", async () => {
  const agent = new Agent(team);
  const url = await stopped(agent, "ann@acme.example");
  assert.equal((await agent.go(url)).status, 303);
  const session = agent.session;
  // The code was used.
  await refused(await agent.go(url), 400, { secrets: [String(url.searchParams.get("code"))] });
  assert.equal(agent.session, session);
  assert.equal((await agent.go(place("/api/v1/me"))).status, 200);
});

test("an_answer_of_another_provider_is_refused_before_its_code_is_sent_anywhere", async () => {
  const other = await trap();
  const agent = new Agent(team);
  const url = await stopped(agent, "ann@acme.example");
  for (const iss of [other.url, `${team.issuer}/`.replace("127.0.0.1", "localhost"), "x"]) {
    const answer = await back(agent, { ...Object.fromEntries(url.searchParams), iss });
    await refused(answer, 400, { what: iss });
  }
  // This provider always says who it is.
  const { code, state } = Object.fromEntries(url.searchParams);
  await refused(await back(agent, { code, state }), 400);
  assert.deepEqual(other.visits, []);
  assert.equal(agent.session, undefined);
  await told(team, "wrong_issuer");
  other.end();
});

test("a_code_that_was_given_to_a_client_signs_no_one_in", async () => {
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  const client = await new Client(team).register();
  const code = await client.code(agent);
  const other = new Agent(team);
  const { state, iss } = Object.fromEntries((await stopped(other, "eve@acme.example")).searchParams);
  await refused(await back(other, { code, state, iss }), 400, { secrets: [code] });
  assert.equal(other.session, undefined);
});

test("what_an_answer_says_in_html_stays_text", async () => {
  const agent = new Agent(team);
  const state = String((await stopped(agent, "ann@acme.example")).searchParams.get("state"));
  const html = `<img src=x onerror=alert(1)><script>alert(1)</script>"'\u202e\u200b\r\nSet-Cookie: a=b`;
  const answer = await back(agent, { error: "access_denied", error_description: html, state, iss: team.issuer });
  const page = await refused(answer, 400);
  assert.doesNotMatch(page, /<img|<script|\u202e|\u200b/);
  assert.equal(answer.headers.get("set-cookie"), null);
  assert.match(String(answer.headers.get("content-security-policy")), /default-src 'none'/);
  assert.match(String(answer.headers.get("content-type")), /^text\/html/);
});

test("a_session_that_was_there_before_the_sign_in_is_not_the_one_after_it", async () => {
  const fixed = `trb_${"a".repeat(64)}`;
  const agent = new Agent(team);
  agent.jar(team.origin).set("toolrack", fixed);
  await agent.signIn("ann@acme.example");
  assert.notEqual(agent.session, fixed);
  // The session of an attacker, which was put into the browser, does not become that of the person.
  const thief = new Agent(team);
  await thief.signIn("eve@acme.example");
  const own = String(thief.session);
  const victim = new Agent(team);
  victim.jar(team.origin).set("toolrack", own);
  await victim.signIn("ann@acme.example");
  assert.notEqual(victim.session, own);
  const asks = () => fetch(place("/api/v1/me"), { headers: { cookie: `toolrack=${own}` } });
  for (const end = Date.now() + 8_000; (await asks()).status !== 401; ) assert.ok(Date.now() < end);
});

test("a_sign_in_s_secret_that_was_put_into_a_browser_signs_in_no_one_else", async () => {
  const fixed = "ab".repeat(32);
  const [thief, victim] = [new Agent(team), new Agent(team)];
  for (const agent of [thief, victim]) agent.jar(team.origin).set("toolrack-sign-in", "not a secret");
  await thief.go(place("/sign-in"));
  await victim.go(place("/sign-in"));
  const secret = (/** @type {Agent} */ agent) => agent.jar(team.origin).get("toolrack-sign-in");
  assert.match(String(secret(victim)), /^[0-9a-f]{64}$/);
  assert.notEqual(secret(thief), secret(victim));
  const both = { cookie: `toolrack-sign-in=${fixed}; toolrack-sign-in=${secret(victim)}` };
  const state = String((await stopped(victim, "ann@acme.example")).searchParams.get("state"));
  await refused(await fetch(place(`/sign-in/back?code=x&state=${state}`), { headers: both }), 400);
});

test("cookies_are_read_by_no_script_and_sent_by_no_form_of_another_site", async () => {
  const agent = new Agent(team);
  const begun = await agent.go(place("/sign-in"));
  const { url } = await agent.through(begun, "ann@acme.example", (url) => url.pathname === "/sign-in/back");
  const done = await agent.go(url);
  for (const line of [...begun.headers.getSetCookie(), ...done.headers.getSetCookie()]) {
    assert.match(line, /; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/);
    assert.doesNotMatch(line, /domain/i);
  }
  for (const answer of [begun, done]) {
    assert.equal(answer.headers.get("cache-control"), "no-store");
    assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
  }
});

test("two_different_cookies_of_one_name_are_none", async () => {
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  const thief = new Agent(team);
  await thief.signIn("eve@acme.example");
  const me = (/** @type {string} */ cookie) => fetch(place("/api/v1/me"), { headers: { cookie } });
  assert.equal((await me(agent.cookie)).status, 200);
  for (const cookie of [`${thief.cookie}; ${agent.cookie}`, `${agent.cookie}; toolrack=`, `${agent.cookie}, ${thief.cookie}`]) {
    await refused(await me(cookie), 401, { what: cookie });
  }
});

test("a_cookie_is_no_token_and_a_token_no_cookie", async () => {
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  const session = String(agent.session);
  const token = team.tokenOf("tom", "acme");
  assert.equal(await opens(team, token), 200);
  await refused(await mcp(team, { cookie: agent.cookie, origin: team.origin }), 401);
  await refused(await mcp(team, bearer(session)), 401, { secrets: [session] });
  await refused(await fetch(place("/api/v1/me"), { headers: bearer(session) }), 401, { secrets: [session] });
  await refused(await fetch(place("/api/v1/me"), { headers: { cookie: `toolrack=${token}` } }), 401, { secrets: [token] });
  // A token that is wrong is not made good by the cookie beside it.
  await refused(await fetch(place("/api/v1/me"), { headers: { cookie: agent.cookie, ...bearer("trk_x") } }), 401);
  await refused(await fetch(place("/api/v1/me"), { headers: { cookie: agent.cookie, authorization: "" } }), 401);
  await told(team, "wrong_place");
});

test("a_page_of_another_site_changes_nothing_with_the_cookie_of_a_person", async () => {
  const olga = new Agent(team);
  await olga.signIn("olga@acme.example");
  const body = JSON.stringify({ value: "of the attacker" });
  const call = JSON.stringify({ tool: "acme-shop/echo", arguments: { text: "x" }, approved: true });
  /** @type {[string, string, string][]} */
  const changes = [
    ["POST", "/api/v1/servers/acme-shop/reconnect", ""],
    ["POST", "/api/v1/calls", call],
    ["PUT", "/api/v1/me/credentials/NAME", body],
    ["DELETE", "/api/v1/answers", ""],
  ];
  const kinds = ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""];
  /** @type {Record<string, string>[]} */
  const origins = [
    {},
    { origin: "null" },
    { origin: "https://evil.example" },
    { origin: team.origin.replace("http:", "https:") },
    { origin: `${team.origin}.evil.example` },
    { origin: team.origin.replace("127.0.0.1", "localhost") },
    { origin: team.origin, "sec-fetch-site": "cross-site" },
    { origin: team.origin, "sec-fetch-site": "same-site" },
    { referer: `${team.origin}/` },
  ];
  for (const [method, path, body] of changes) {
    for (const headers of origins) {
      for (const kind of kinds) {
        const type = kind ? { "content-type": kind } : {};
        const sent = { method, headers: { cookie: olga.cookie, ...type, ...headers }, body: body || undefined };
        await refused(await fetch(place(path), sent), 403, { what: `${method} ${path} ${kind} ${JSON.stringify(headers)}` });
      }
    }
  }
  // A form of its own page is not JSON either.
  for (const kind of kinds.slice(1, 4)) {
    const headers = { cookie: olga.cookie, origin: team.origin, "content-type": kind };
    await refused(await fetch(place("/api/v1/calls"), { method: "POST", headers, body: call }), 415, { what: kind });
  }
  await told(team, "cross_site");
});

test("a_method_that_a_header_names_is_not_the_method", async () => {
  const olga = new Agent(team);
  await olga.signIn("olga@acme.example");
  for (const name of ["x-http-method-override", "x-http-method", "x-method-override"]) {
    const headers = { cookie: olga.cookie, [name]: "DELETE" };
    const answer = await fetch(place("/api/v1/answers"), { headers });
    assert.equal(answer.status, 200, name);
    assert.ok("answers" in (await answer.json()), name);
  }
  for (const method of ["GET", "HEAD"]) {
    const path = "/api/v1/servers/acme-shop/reconnect?_method=POST";
    await refused(await fetch(place(path), { method, headers: { cookie: olga.cookie } }), 405);
  }
});

test("a_sign_out_by_another_site_signs_no_one_out", async () => {
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  for (const headers of [
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: team.origin, "sec-fetch-site": "cross-site" },
  ]) {
    await refused(await agent.form("/sign-out", {}, headers), 403);
  }
  await refused(await agent.go(place("/sign-out")), 405);
  assert.equal((await agent.go(place("/api/v1/me"))).status, 200);
});

test("no_page_is_shown_in_a_frame_of_another_site", async () => {
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  const client = await new Client(team).register();
  const pages = ["/", "/?x=1", client.asks(), "/sign-in/back", "/oauth/authorize", "/sign-in?to=//x", "/no-such-page"];
  for (const page of pages) {
    const answer = await agent.go(page.startsWith("http") ? page : place(page));
    const policy = String(answer.headers.get("content-security-policy"));
    if (!String(answer.headers.get("content-type")).startsWith("text/html")) continue;
    assert.match(policy, /frame-ancestors 'none'/, page);
  }
  // A real browser, in which Ann is signed in, shows the page of consent in no frame.
  const page = await team.signedIn(visitor, "ann@acme.example");
  const html = `<iframe src="${client.asks().replaceAll("&", "&amp;")}"></iframe>`;
  const other = await trap(() => ({ headers: { "content-type": "text/html" }, body: html }));
  const evil = await page.context().newPage();
  const stopped = new Promise((found) =>
    evil.on("console", (/** @type {any} */ message) => /frame-ancestors/.test(message.text()) && found(undefined)),
  );
  await evil.goto(other.url);
  await stopped;
  assert.doesNotMatch(await evil.content(), /Allow/);
  await page.context().close();
  other.end();
});

test("consent_by_a_form_of_another_site_or_without_the_secret_of_the_page_gives_no_code", async () => {
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  const client = await new Client(team).register();
  const shown = async (/** @type {Agent} */ who) => fields(await (await who.go(client.asks())).text()).values;
  const values = { ...(await shown(agent)), answer: "allow" };
  const other = new Agent(team);
  await other.signIn("eve@acme.example");
  const theirs = await shown(other);
  const wrong = /** @type {[string, Record<string, string>, Record<string, string>?][]} */ ([
    ["another site", values, { origin: "https://evil.example" }],
    ["a page without an origin", values, { origin: "null" }],
    ["cross-site", values, { origin: team.origin, "sec-fetch-site": "cross-site" }],
    ["no secret", { ...values, seal: "" }],
    ["a guess", { ...values, seal: "0".repeat(64) }],
    ["the secret of another person's page", { ...values, seal: theirs.seal, ends: theirs.ends }],
    ["a later end", { ...values, ends: String(Number(values.ends) + 60) }],
    ["another client", { ...values, request: values.request.replace(/client_id=[^&]*/, `client_id=${(await new Client(team).register()).id}`) }],
    ["another challenge", { ...values, request: values.request.replace(/code_challenge=[^&]*/, `code_challenge=${"A".repeat(43)}`) }],
    ["another state", { ...values, request: values.request.replace(/state=[^&]*/, "state=x") }],
  ]);
  for (const [what, sent, headers] of wrong) {
    const answer = await agent.form("/oauth/authorize", sent, headers);
    await refused(answer, 403, { what });
    assert.equal(answer.headers.get("location"), null, what);
  }
  // The page that Ann saw, in the browser of another person.
  await refused(await other.form("/oauth/authorize", values), 403);
  await told(team, "wrong_seal");
  const { location } = Object.fromEntries((await agent.form("/oauth/authorize", values)).headers);
  assert.match(location, /^http:\/\/127\.0\.0\.1:4711\/back\?code=/);
});

test("a_real_browser_sends_no_consent_from_the_form_of_another_site", async () => {
  const page = await team.signedIn(visitor, "ann@acme.example");
  const client = await new Client(team).register();
  await page.goto(client.asks());
  const { values } = fields(await page.content());
  const inputs = Object.entries({ ...values, answer: "allow" }).map(
    ([name, value]) => `<input name="${name}" value="${value.replaceAll("&", "&amp;")}">`,
  );
  const form = `<form method="post" action="${place("/oauth/authorize")}">${inputs.join("")}</form>`;
  const html = `${form}<script>document.forms[0].submit()</script>`;
  const evil = await trap(() => ({ headers: { "content-type": "text/html" }, body: html }));
  await page.goto(evil.url).catch(() => undefined);
  await page.getByText(/cross_site/).waitFor();
  await page.context().close();
  evil.end();
});
