// Attacks with OAuth clients of a team: codes and tokens that go astray, clients that lie, and floods of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withTeam } from "../team.mjs";
import { Agent, Client, bearer, fields, opens, refused, told, trap } from "../thief.mjs";

const { team } = withTeam({
  begin: async () => {
    await ann.signIn("ann@acme.example");
    await eve.signIn("eve@acme.example");
  },
});
const ann = new Agent(team);
const eve = new Agent(team);

/** Waits until a token opens nothing. @param {string} token */
async function closes(token) {
  for (const end = Date.now() + 8_000; (await opens(team, token)) !== 401; ) assert.ok(Date.now() < end, "it still opens");
}

/** That a client gets no code, and the browser goes nowhere. @param {string} url @param {string} what @param {string[]} [secrets] */
async function asksInVain(url, what, secrets = []) {
  for (const agent of [ann, new Agent(team)]) {
    const answer = await agent.go(url);
    await refused(answer, 400, { what, secrets });
    assert.equal(answer.headers.get("location"), null, what);
  }
}

test("a_code_goes_to_the_exact_address_of_its_client_and_nowhere_else", async () => {
  const client = await new Client(team, "https://client.example/back").register();
  const others = [
    "https://client.example/back/",
    "https://client.example/back/more",
    "https://client.example/back?x=1",
    "https://client.example/back#x",
    "https://client.example/Back",
    "https://client.example/other/../back",
    "https://client.example/%62ack",
    "https://client.example:8443/back",
    "https://client.example:443/back",
    "https://client.example./back",
    "https://CLIENT.example/back",
    "https://evil@client.example/back",
    "https://client.example@evil.example/back",
    "https://client.example.evil.example/back",
    "https://evil.example/back",
    "http://client.example/back",
    "//client.example/back",
    "https:client.example/back",
    "https://client.example\\@evil.example/back",
    "https://client.example/back\r\nSet-Cookie: a=b",
    "javascript:alert(1)",
    "data:text/html,x",
    " https://client.example/back",
    "https://client.example/back\u0000",
  ];
  for (const redirect_uri of others) await asksInVain(client.asks({ redirect_uri }), redirect_uri);
  await told(team, "invalid_redirect_uri");
});

test("on_the_person_s_own_machine_only_the_port_may_differ", async () => {
  const client = await new Client(team, "http://127.0.0.1:4711/back").register();
  for (const redirect_uri of [
    "http://localhost:4711/back",
    "http://[::1]:4711/back",
    "http://127.0.0.2:4711/back",
    "http://127.0.0.1:4711/",
    "http://127.0.0.1:4711/back/",
    "http://127.0.0.1:4711/back?x=1",
    "http://evil.example@127.0.0.1:4711/back",
    "http://127.0.0.1:4711@evil.example/back",
    "http://127.0.0.1.evil.example:4711/back",
    "http://127.0.0.1:4711\\@evil.example/back",
    "https://127.0.0.1:4711/back",
    "http:127.0.0.1:4711/back",
  ]) {
    await asksInVain(client.asks({ redirect_uri }), redirect_uri);
  }
  assert.match(await client.code(ann, { redirect_uri: "http://127.0.0.1:9/back" }), /^[0-9a-f]{64}$/);
});

test("no_client_registers_an_address_that_leads_astray", async () => {
  for (const redirect of [
    "http://evil.example/back",
    "http://127.0.0.1.evil.example/",
    "http://10.0.0.1/back",
    "https://user@client.example/",
    "https://client.example/#x",
    "https:client.example/back",
    "https:/client.example/back",
    "http:127.0.0.1/back",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "blob:https://client.example/1",
    "app:/back",
    'https://client.example/"><script>',
    "https://client.example/\r\nSet-Cookie: a=b",
    "https://client.exämple/",
    `https://client.example/${"a".repeat(2_000)}`,
    "",
    7,
    null,
  ]) {
    const answer = await Client.registers(team, { redirect_uris: ["https://client.example/", redirect] });
    await refused(answer, 400, { what: String(redirect) });
  }
  for (const redirect_uris of [[], undefined, "https://client.example/", Array(100).fill("https://client.example/")]) {
    await refused(await Client.registers(team, { redirect_uris }), 400, { what: String(redirect_uris) });
  }
});

test("no_code_is_given_without_pkce_by_s256", async () => {
  const client = await new Client(team).register();
  const wrong = [
    { code_challenge: undefined },
    { code_challenge: "" },
    { code_challenge_method: undefined },
    { code_challenge_method: "plain" },
    { code_challenge_method: "s256" },
    { code_challenge_method: "none" },
    { code_challenge: "short" },
    { code_challenge: `${"A".repeat(42)}=` },
    { code_challenge: "A".repeat(44) },
    { response_type: "token" },
    { response_type: "code token" },
    { response_type: "id_token" },
    { response_mode: "fragment" },
    { response_mode: "form_post" },
    { request: "eyJhbGciOiJub25lIn0.e30." },
    { request_uri: "http://127.0.0.1:1/" },
    { resource: "https://other.example/mcp" },
    { scope: "admin" },
  ];
  for (const more of wrong) {
    const answer = await ann.go(client.asks(more));
    const back = new URL(String(answer.headers.get("location")));
    assert.ok(back.searchParams.get("error"), JSON.stringify(more));
    assert.equal(back.searchParams.get("code"), null, JSON.stringify(more));
    assert.equal(back.searchParams.get("iss"), team.origin);
    // Without a person there, the browser is sent to no client (RFC 9700, 4.11.2).
    const stranger = await new Agent(team).go(client.asks(more));
    assert.match(String(stranger.headers.get("location")), /^\/sign-in\?/, JSON.stringify(more));
  }
  await told(team, "invalid_request", /code_challenge/);
});

test("a_parameter_that_is_there_twice_is_refused", async () => {
  const client = await new Client(team).register();
  for (const [name, value] of [
    ["redirect_uri", "https://evil.example/"],
    ["client_id", "another"],
    ["state", "another"],
  ]) {
    await asksInVain(`${client.asks()}&${new URLSearchParams({ [name]: value })}`, name);
  }
  const answer = await ann.go(`${client.asks()}&code_challenge=${"A".repeat(43)}`);
  assert.match(String(answer.headers.get("location")), /error=invalid_request/);
  const code = await client.code(ann);
  const own = { grant_type: "authorization_code", code, client_id: String(client.id), redirect_uri: client.redirect };
  const twice = `${new URLSearchParams({ ...own, code_verifier: "A".repeat(43) })}&code_verifier=${client.verifier}`;
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  await refused(await fetch(`${team.origin}/oauth/token`, { method: "POST", headers, body: twice }), 400, { secrets: [code] });
});

test("a_code_without_its_verifier_gives_no_token_and_ends", async () => {
  const client = await new Client(team).register();
  const other = { code_verifier: new Client(team).verifier };
  for (const more of [other, { code_verifier: undefined }, { code_verifier: "" }, { code_verifier: client.challenge }, { code_verifier: "A".repeat(129) }]) {
    const code = await client.code(ann);
    await refused(await client.exchanges(code, more), 400, { what: JSON.stringify(more), secrets: [code] });
    // A thief does not get to guess again, and the code is spent for all.
    if (more === other) await refused(await client.exchanges(code), 400, { what: "after a guess", secrets: [code] });
  }
  await told(team, "invalid_grant");
});

test("a_stolen_code_is_of_no_use_to_another_client", async () => {
  const client = await new Client(team).register();
  const thief = await new Client(team).register();
  const code = await client.code(ann);
  await refused(await thief.exchanges(code), 400, { secrets: [code] });
  await refused(await thief.exchanges(code, { code_verifier: client.verifier }), 400, { secrets: [code] });
  const again = await client.code(ann);
  for (const redirect_uri of ["https://evil.example/", "http://127.0.0.1:9/back", "http://127.0.0.1:4711/back/"]) {
    const one = await client.code(ann);
    await refused(await client.exchanges(one, { redirect_uri }), 400, { what: redirect_uri, secrets: [one] });
  }
  assert.equal((await client.exchanges(again)).status, 200);
  for (const guess of ["", "x", "0".repeat(64), again.toUpperCase(), `${again} `]) {
    await refused(await client.exchanges(guess), 400, { what: guess });
  }
});

test("a_code_that_is_used_twice_ends_the_tokens_of_its_first_use", async () => {
  const client = await new Client(team).register();
  const code = await client.code(ann);
  const tokens = await (await client.exchanges(code)).json();
  assert.equal(await opens(team, tokens.access_token), 200);
  await refused(await client.exchanges(code), 400, { secrets: [code, tokens.access_token] });
  await closes(tokens.access_token);
  await refused(await client.renews(tokens.refresh_token), 400, { secrets: [tokens.refresh_token] });
});

test("one_code_that_many_exchange_at_once_leaves_no_token_that_counts", async () => {
  const client = await new Client(team).register();
  const code = await client.code(ann);
  const answers = await Promise.all(Array.from({ length: 12 }, () => client.exchanges(code)));
  const given = answers.filter(({ status }) => status === 200);
  assert.ok(given.length <= 1, `${given.length} exchanges of one code`);
  for (const answer of given) await closes((await answer.json()).access_token);
});

test("a_refresh_token_that_is_used_twice_ends_its_grant", async () => {
  const client = await new Client(team).register();
  const first = await client.tokens(ann);
  const second = await (await client.renews(first.refresh_token)).json();
  assert.equal(await opens(team, second.access_token), 200);
  await refused(await client.renews(first.refresh_token), 400, { secrets: [first.refresh_token, second.refresh_token] });
  for (const token of [first.access_token, second.access_token]) await closes(token);
  await refused(await client.renews(second.refresh_token), 400);
  await told(team, "invalid_grant", /used before/);
});

test("one_refresh_token_that_many_use_at_once_leaves_no_token_that_counts", async () => {
  const client = await new Client(team).register();
  const { refresh_token } = await client.tokens(ann);
  const answers = await Promise.all(Array.from({ length: 12 }, () => client.renews(refresh_token)));
  for (const answer of answers) {
    if (answer.status !== 200) continue;
    const { access_token, refresh_token } = await answer.json();
    await closes(access_token);
    await refused(await client.renews(refresh_token), 400);
  }
});

test("a_refresh_token_is_of_no_use_to_another_client_and_its_grant_ends", async () => {
  const client = await new Client(team).register();
  const thief = await new Client(team).register();
  const tokens = await client.tokens(ann);
  await refused(await thief.renews(tokens.refresh_token), 400, { secrets: [tokens.refresh_token] });
  await closes(tokens.access_token);
  await told(team, "invalid_grant", /another client/);
});

test("a_refresh_token_opens_nothing_by_itself_and_none_is_guessed", async () => {
  const client = await new Client(team).register();
  const { refresh_token, access_token } = await client.tokens(ann);
  assert.equal(await opens(team, refresh_token), 401);
  const handle = refresh_token.slice(0, 36);
  for (const guess of [`${handle}${"0".repeat(64)}`, refresh_token.slice(0, -1), `${refresh_token}0`, access_token, "trr_", handle]) {
    await refused(await client.renews(guess), 400, { what: guess, secrets: [guess.length > 40 ? guess : "\u0000"] });
  }
  await refused(await client.renews(refresh_token, { resource: "https://other.example/mcp" }), 400);
  await refused(await client.renews(refresh_token, { scope: "admin" }), 400);
});

test("a_token_of_a_client_opens_the_mcp_endpoint_and_nothing_else", async () => {
  const client = await new Client(team).register();
  const { access_token } = await client.tokens(ann);
  for (const path of ["/api/v1/me", "/api/v1/servers", "/api/v1/me/credentials", "/api/v1/events", "/metrics", "/mcp/", "/agents/a/mcp"]) {
    await refused(await fetch(`${team.origin}${path}`, { headers: bearer(access_token) }), [401, 403], { what: path });
  }
  await refused(await fetch(`${team.origin}/api/v1/me`, { headers: { cookie: `toolrack=${access_token}` } }), 401);
  await told(team, "wrong_audience");
});

test("no_client_revokes_what_was_given_to_another", async () => {
  const client = await new Client(team).register();
  const thief = await new Client(team).register();
  const { access_token, refresh_token } = await client.tokens(ann);
  for (const token of [access_token, refresh_token]) {
    await refused(await client.posts({ token, client_id: thief.id }, "/oauth/revoke"), 401, { secrets: [token] });
  }
  assert.equal(await opens(team, access_token), 200);
  // Unknown ones are revoked already, and say nothing of those that are known.
  for (const token of ["x", `tra_${"0".repeat(64)}`, String(ann.session)]) {
    assert.equal((await client.posts({ token, client_id: thief.id }, "/oauth/revoke")).status, 200, token);
  }
  assert.equal(await opens(team, access_token), 200);
  assert.equal((await ann.go(`${team.origin}/api/v1/me`)).status, 200);
});

test("a_client_that_wants_to_prove_itself_with_a_secret_is_told_that_it_cannot", async () => {
  const client = await new Client(team).register();
  const code = await client.code(ann);
  const body = new URLSearchParams({ grant_type: "authorization_code", code, client_id: String(client.id) });
  const headers = { authorization: `Basic ${Buffer.from(`${client.id}:secret`).toString("base64")}` };
  await refused(await fetch(`${team.origin}/oauth/token`, { method: "POST", headers, body }), 401, { secrets: [code] });
  for (const grant_type of ["password", "client_credentials", "implicit", "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:jwt-bearer"]) {
    await refused(await client.posts({ grant_type, client_id: client.id, username: "ann", password: "any" }), 400, { what: grant_type });
  }
  const json = { "content-type": "application/json" };
  await refused(await fetch(`${team.origin}/oauth/token`, { method: "POST", headers: json, body: "{}" }), 400);
});

test("a_description_of_a_client_is_fetched_for_no_stranger_and_follows_no_redirect", async () => {
  const inside = await trap(() => ({ body: "{}" }));
  const server = await trap((url) =>
    url === "/moved" ? { status: 302, headers: { location: `${inside.url}/secret` } } : { body: JSON.stringify({ client_id: "another", redirect_uris: ["https://client.example/"] }) },
  );
  const asks = (/** @type {string} */ client_id, redirect_uri = "https://client.example/") => new Client(team).asks({ client_id, redirect_uri });
  await new Agent(team).go(asks(`${server.url}/stranger`));
  assert.deepEqual(server.visits, []);
  for (const path of ["/moved", "/another"]) {
    await refused(await ann.go(asks(`${server.url}${path}`)), 400, { what: path, secrets: ["root:", "secret"] });
  }
  assert.deepEqual(server.visits, ["/moved", "/another"]);
  assert.deepEqual(inside.visits, []);
  const address = server.url.replace("http://", "");
  for (const id of [
    "file:///etc/passwd",
    "gopher://127.0.0.1:1/_x",
    `http://user:word@${address}/x`,
    `${server.url}/x#y`,
    `${server.url}`,
    `${server.url}/`,
    `${server.url}/a/../b`,
    `HTTP://${address}/x`,
    "http://2130706433/x",
    "http://0x7f.1/x",
    "http://127.1/x",
    `${server.url}/${"a".repeat(1_100)}`,
    `${server.url}/\r\nX: y`,
  ]) {
    await refused(await ann.go(asks(id)), 400, { what: id });
  }
  assert.deepEqual(server.visits, ["/moved", "/another"]);
  for (const one of [inside, server]) one.end();
});

test("a_description_that_lies_is_too_large_or_no_json_makes_no_client", async () => {
  /** @type {string} */
  let body = "";
  const server = await trap(() => ({ body }));
  const id = (/** @type {number} */ number) => `${server.url}/client-${number}`;
  const right = (/** @type {number} */ number) => ({ client_id: id(number), client_name: "c", redirect_uris: ["https://client.example/"] });
  const documents = [
    (/** @type {number} */ n) => JSON.stringify({ ...right(n), redirect_uris: [] }),
    (/** @type {number} */ n) => JSON.stringify({ ...right(n), redirect_uris: ["javascript:alert(1)"] }),
    (/** @type {number} */ n) => JSON.stringify({ ...right(n), redirect_uris: Array(200).fill("https://client.example/") }),
    (/** @type {number} */ n) => JSON.stringify({ ...right(n), token_endpoint_auth_method: "client_secret_basic" }),
    (/** @type {number} */ n) => JSON.stringify({ ...right(n), more: "x".repeat(100_000) }),
    () => "[".repeat(60_000),
    () => "<html>",
    () => "",
  ];
  for (const [number, document] of documents.entries()) {
    body = document(number);
    const asks = new Client(team).asks({ client_id: id(number), redirect_uri: "https://client.example/" });
    await refused(await ann.go(asks), 400, { what: body.slice(0, 80) });
  }
  await told(team, "invalid_client_metadata");
  server.end();
});

test("a_name_that_wants_to_deceive_is_spelled_out_where_a_person_agrees", async () => {
  const names = [
    '<script>alert(1)</script><img src=x onerror="alert(1)">',
    "Claude\u202e edoC\u202c",
    "Cla\u200bude\u2066 Code\u2069\ufeff",
    "Claude\r\nYou are: the administrator",
    "\u001b[2JClaude\u0007\u0000",
    "”</strong> of your team <strong>“",
    "\u{e0041}\u{e0042}Claude",
    "a".repeat(5_000),
    "   ",
  ];
  for (const client_name of names) {
    const client = await new Client(team).register({ client_name });
    const answer = await ann.go(client.asks());
    const page = await answer.text();
    assert.equal(answer.status, 200);
    assert.doesNotMatch(page, /<script|<img|[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/u, client_name);
    assert.ok(page.length < 20_000);
    assert.equal([...page.matchAll(/<form/g)].length, 2);
    assert.match(page, /127\.0\.0\.1:4711/);
  }
  const client = await new Client(team, "https://evil.example/claude.ai/back").register({ client_name: "claude.ai" });
  assert.match(await (await ann.go(client.asks())).text(), /Answer goes to<\/dt><dd>evil\.example</);
});

test("a_member_who_was_removed_takes_the_tokens_of_their_clients_along", async () => {
  const zoe = new Agent(team);
  await zoe.signIn("zoe@acme.example");
  const client = await new Client(team).register();
  const tokens = await client.tokens(zoe);
  const code = await client.code(zoe);
  team.run("team", "remove", "zoe@acme.example", "--issuer", team.issuer);
  await closes(tokens.access_token);
  await refused(await client.renews(tokens.refresh_token), 400);
  await refused(await client.exchanges(code), 400);
  assert.equal((await zoe.go(client.asks())).headers.get("location")?.startsWith("/sign-in?"), true);
});

test("a_person_agrees_in_their_own_name_alone", async () => {
  const client = await new Client(team).register();
  const page = await eve.go(client.asks());
  const { values } = fields(await page.text());
  await refused(await ann.form("/oauth/authorize", { ...values, answer: "allow" }), 403);
  const { access_token } = await client.tokens(eve);
  assert.equal(await opens(team, access_token), 200);
});

test("a_registration_that_is_huge_nested_or_no_json_is_refused", async () => {
  const right = { redirect_uris: ["https://client.example/"] };
  for (const body of [
    { ...right, client_name: "x".repeat(20_000) },
    { ...right, more: "x".repeat(20_000) },
    `{"redirect_uris":${"[".repeat(8_000)}`,
    "[]",
    "",
    "\u0000",
    '{"redirect_uris":["https://client.example/"],"redirect_uris":["https://evil.example/"]}',
    { ...right, grant_types: ["client_credentials"] },
    { ...right, response_types: ["token"] },
  ]) {
    await refused(await Client.registers(team, body), 400, { what: JSON.stringify(body).slice(0, 80) });
  }
  await refused(await Client.registers(team, { ...right, more: "x".repeat(100_000) }), [400, 413]);
  // Members that are not known change nothing: no client gets a secret, another scope or a trusted mark.
  const more = { ...right, client_id: "toolrack", client_secret: "s", scope: "admin", token_endpoint_auth_method: "client_secret_post", software_statement: "x" };
  const made = await (await Client.registers(team, more)).json();
  assert.match(made.client_id, /^trc_/);
  assert.equal(made.client_secret, undefined);
  assert.deepEqual([made.scope, made.token_endpoint_auth_method], ["mcp", "none"]);
});

/**
 * Tries again until an outcome is the one that is meant: while a flood lasts, some registrations find a free place.
 * @template T
 * @param {(outcome: T) => boolean} isMeant
 * @param {() => Promise<T>} tries
 * @returns {Promise<T>}
 */
async function untilIt(isMeant, tries) {
  for (let count = 0; count < 100; count += 1) {
    const outcome = await tries();
    if (isMeant(outcome)) return outcome;
  }
  return assert.fail("it never came");
}

test("a_flood_of_registrations_keeps_no_client_out_and_ends_none_that_a_person_uses", async () => {
  const client = await new Client(team).register();
  const { access_token, refresh_token } = await client.tokens(ann);
  const flood = Array.from({ length: 300 }, (_, number) => new Client(team).register({ client_name: `f${number}` }));
  await Promise.all(flood);
  // One that begins meanwhile is served, again and again.
  const isSealed = (/** @type {Client} */ one) => String(one.id).startsWith("trs_");
  const late = await untilIt(isSealed, () => new Client(team).register());
  for (let time = 0; time < 2; time += 1) assert.equal(await opens(team, (await late.tokens(ann)).access_token), 200);
  await asksInVain(late.asks({ client_id: `${String(late.id).slice(0, -8)}AAAAAAAA` }), "a forged id");
  // What an id cannot hold waits.
  const redirect_uris = Array.from({ length: 10 }, (_, number) => `https://client.example/${"a".repeat(200)}/${number}`);
  const isBusy = (/** @type {Response} */ answer) => answer.status === 429;
  const busy = await untilIt(isBusy, () => Client.registers(team, { redirect_uris }));
  await refused(busy, 429);
  assert.ok(busy.headers.has("retry-after"));
  assert.equal(await opens(team, access_token), 200);
  assert.equal((await client.renews(refresh_token)).status, 200);
  await told(team, "temporarily_unavailable");
});
