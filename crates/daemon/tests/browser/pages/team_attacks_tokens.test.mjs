// Tokens of an issuer that a team trusts, forged and misused: none opens the MCP endpoint.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Issuer, base64url, mac, pair, seal, written } from "../issuer.mjs";
import { withTeam } from "../team.mjs";
import { bearer, mcp, opens, raw, refused, statuses, told, trap } from "../thief.mjs";

const issuer = new Issuer();
const forger = pair("RS256");
const { team } = withTeam({
  more: async () => {
    await issuer.up();
    return `
      [[issuers]]
      issuer = "${issuer.url}"
      tenants = ["acme"]
    `;
  },
  begin: async (team) => assert.equal(await opens(team, right()), 200),
  end: async (team) => {
    assert.equal(await opens(team, right()), 200, "a right token still opens the endpoint");
    issuer.down();
  },
});

const audience = () => `${team.origin}/mcp`;
const claims = (more = {}) => issuer.claims(audience(), more);
const right = (more = {}) => issuer.token(claims(more));
const now = () => Math.floor(Date.now() / 1000);

/** That none of these tokens opens anything. @param {Record<string, string>} tokens */
async function openNothing(tokens) {
  for (const [what, token] of Object.entries(tokens)) {
    const response = await mcp(team, bearer(token));
    assert.match(String(response.headers.get("www-authenticate")), /error="invalid_token"/, what);
    await refused(response, 401, { what, secrets: [token] });
  }
}

test("a_token_of_a_forger_opens_nothing_whatever_key_it_names", async () => {
  const file = (/** @type {string} */ kid) => issuer.token(claims(), { kid }, { ...forger, kid });
  await openNothing({
    "the issuer's key": issuer.token(claims(), { kid: issuer.rsa.kid }, forger),
    "a path": file("../../../../../../dev/null"),
    "a query": file("' UNION SELECT 'key' --"),
    "a command": file("key|/bin/true"),
    "an address": file("http://127.0.0.1:1/keys"),
    "no key": issuer.token(claims(), { kid: undefined }, forger),
  });
  await told(team, "invalid_token", /no such key/);
});

test("a_token_that_brings_its_own_key_opens_nothing_and_no_address_in_it_is_asked", async () => {
  const own = await trap(() => ({ body: JSON.stringify({ keys: [forger.jwk] }) }));
  const by = (/** @type {object} */ head) => issuer.token(claims(), { kid: forger.kid, ...head }, forger);
  await openNothing({
    jku: by({ jku: `${own.url}/keys` }),
    jwk: by({ jwk: forger.jwk }),
    "jwk under the issuer's name": by({ jwk: { ...forger.jwk, kid: issuer.rsa.kid }, kid: issuer.rsa.kid }),
    x5u: by({ x5u: `${own.url}/chain.pem` }),
    x5c: by({ x5c: [base64url("a certificate")] }),
  });
  assert.deepEqual(own.visits, []);
  own.end();
});

test("a_token_without_a_signature_opens_nothing", async () => {
  const said = JSON.stringify(claims());
  const none = (/** @type {string} */ alg) =>
    written(JSON.stringify({ alg, typ: "at+jwt", kid: issuer.rsa.kid }), said, () => "");
  const [head, body] = right().split(".");
  await openNothing({
    none: none("none"),
    None: none("None"),
    nOnE: none("nOnE"),
    "no algorithm": none(""),
    "an algorithm that is there": none("RS256"),
    "two parts": `${head}.${body}`,
    "zeros, as of a broken ECDSA": written(
      JSON.stringify({ alg: "ES256", typ: "at+jwt", kid: issuer.ec.kid }),
      said,
      () => base64url(Buffer.alloc(64)),
    ),
  });
});

test("a_public_key_is_no_shared_secret", async () => {
  const said = JSON.stringify(claims());
  const pem = issuer.rsa.publicKey.export({ format: "pem", type: "spki" });
  const by = (/** @type {string | Buffer} */ secret, /** @type {string} */ kid = issuer.rsa.kid) =>
    written(JSON.stringify({ alg: "HS256", typ: "at+jwt", kid }), said, mac(secret));
  await openNothing({
    "as text": by(pem),
    "as text without its end": by(String(pem).trim()),
    "as bytes": by(issuer.rsa.publicKey.export({ format: "der", type: "spki" })),
    "its number": by(Buffer.from(String(issuer.rsa.jwk.n), "base64url")),
    "an empty one": by(""),
    "one that the issuer lists": by(issuer.shared, "shared"),
  });
});

test("a_key_counts_for_its_own_algorithm_and_purpose_alone", async () => {
  const said = JSON.stringify(claims());
  const head = (/** @type {object} */ more) => JSON.stringify({ typ: "at+jwt", ...more });
  await openNothing({
    "a key for encryption": issuer.token(claims(), { alg: "RS256" }, issuer.enc),
    "RSA under the name of a curve": written(head({ alg: "RS256", kid: issuer.ec.kid }), said, seal(issuer.rsa)),
    "a curve under the name of RSA": written(head({ alg: "ES256", kid: issuer.rsa.kid }), said, seal(issuer.ec)),
    "another padding": issuer.token(claims(), { alg: "PS256" }),
    "a signature of another form": written(head({ alg: "ES256", kid: issuer.ec.kid }), said, seal(issuer.ec, "der")),
  });
  assert.equal(await opens(team, issuer.token(claims(), {}, issuer.ec)), 200);
});

test("a_token_of_another_audience_opens_nothing", async () => {
  const of = (/** @type {unknown} */ aud) => right({ aud });
  await openNothing({
    "another team": of("https://other.example/mcp"),
    "the team, and not its endpoint": of(team.origin),
    "a longer one": of(`${audience()}/x`),
    "a slash": of(`${audience()}/`),
    "large letters": of(audience().toUpperCase()),
    "none": of(undefined),
    "an empty list": of([]),
    "an object": of({ [audience()]: true }),
    "a list of others": of(["https://other.example/mcp", team.origin]),
  });
  await told(team, "invalid_token", /another audience/);
});

test("a_token_of_another_issuer_opens_nothing_and_that_issuer_is_not_asked", async () => {
  const other = await trap();
  await openNothing({
    "one that is not trusted": right({ iss: other.url }),
    "a name behind it": right({ iss: `${issuer.url}.evil.example` }),
    "a user before it": right({ iss: issuer.url.replace("http://", "http://evil@") }),
    "a path": right({ iss: `${issuer.url}/x` }),
    "none": right({ iss: undefined }),
    "a list": right({ iss: [issuer.url] }),
    "the provider of the team": right({ iss: team.issuer }),
    "the team itself": right({ iss: team.origin }),
  });
  assert.deepEqual(other.visits, []);
  other.end();
  await told(team, "unknown_issuer");
});

test("a_token_opens_nothing_before_its_time_and_after_it", async () => {
  await openNothing({
    expired: right({ exp: now() - 120 }),
    "without an end": right({ exp: undefined }),
    "an end that is text": right({ exp: String(now() + 600) }),
    "an end that is nothing": right({ exp: null }),
    "an end below zero": right({ exp: -1 }),
    "not yet valid": right({ nbf: now() + 300 }),
    "made in the future": right({ iat: now() + 300 }),
  });
  const endless = written(
    JSON.stringify({ alg: "RS256", typ: "at+jwt", kid: issuer.rsa.kid }),
    JSON.stringify(claims()).replace(/"exp":\d+/, '"exp":1e400'),
    seal(issuer.rsa),
  );
  await openNothing({ "an end that is not a number": endless });
});

test("a_token_ends_while_its_stream_is_open", async () => {
  // Clocks may be off by 60 s, so this one has a second left.
  const token = right({ exp: now() - 58 });
  const begun = await fetch(audience(), {
    method: "POST",
    headers: { ...bearer(token), "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } },
    }),
  });
  assert.equal(begun.status, 200);
  const session = String(begun.headers.get("mcp-session-id"));
  const headers = { ...bearer(token), accept: "text/event-stream", "mcp-session-id": session };
  const stream = await fetch(audience(), { headers });
  assert.equal(stream.status, 200);
  const ended = stream.text();
  await Promise.race([
    ended,
    new Promise((_, late) => setTimeout(() => late(new Error("the stream is still open")), 8_000).unref()),
  ]);
  assert.equal(await opens(team, token), 401);
});

test("a_token_of_another_kind_opens_nothing", async () => {
  const typed = (/** @type {object} */ more, typ = "JWT") => issuer.token(claims(more), { typ });
  await openNothing({
    "an ID token": typed({ nonce: "n", client_id: undefined }),
    "an ID token with the claims of access": typed({ nonce: "n", at_hash: "x" }),
    "a logout token": typed({ events: {} }, "logout+jwt"),
    "an answer to an introspection": typed({}, "token-introspection+jwt"),
    "a proof of possession": typed({}, "dpop+jwt"),
    "one that is bound to a key": right({ cnf: { jkt: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" } }),
    "one with an unknown demand": issuer.token(claims(), { crit: ["exp"] }),
    "one that is not encoded": issuer.token(claims(), { b64: false, crit: ["b64"] }),
  });
});

test("an_issuer_vouches_for_no_one_but_its_own_tenants", async () => {
  await openNothing({
    "another tenant": right({ email: "bob@bolt.example" }),
    "an address that is not verified": right({ email_verified: false }),
    "an address that is verified in words": right({ email_verified: "yes" }),
    "an address of nowhere": right({ email: "ann@acme.example.evil.example" }),
    "two addresses": right({ email: ["ann@acme.example"] }),
    "a name of no one": right({ sub: "" }),
    "no name": right({ sub: undefined }),
    "a name that is a number": right({ sub: 7 }),
  });
  // Claims of an issuer raise no role, unless the team file says so.
  const raised = right({ role: "admin", roles: ["admin", "operator"], tenant: "bolt", groups: ["admin"] });
  const answer = await (await mcp(team, bearer(raised))).json();
  assert.match(JSON.stringify(answer), /acme-shop/);
  assert.doesNotMatch(JSON.stringify(answer), /bolt-shop/);
});

test("a_token_that_says_a_thing_twice_does_not_count_twice", async () => {
  const head = JSON.stringify({ alg: "RS256", typ: "at+jwt", kid: issuer.rsa.kid });
  const twice = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    const said = JSON.stringify(claims());
    return written(head, `{"${name}":${JSON.stringify(value)},${said.slice(1)}`, seal(issuer.rsa));
  };
  const last = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    const said = JSON.stringify(claims());
    return written(head, `${said.slice(0, -1)},"${name}":${JSON.stringify(value)}}`, seal(issuer.rsa));
  };
  await openNothing({
    "the audience": twice("aud", "https://other.example/mcp"),
    "the audience at last": last("aud", "https://other.example/mcp"),
    "the issuer": twice("iss", "https://other.example"),
    "the end": twice("exp", 1),
    "the end at last": last("exp", 1),
    "the algorithm": written(`{"alg":"none",${head.slice(1)}`, JSON.stringify(claims()), seal(issuer.rsa)),
    "the subject": twice("sub", "another"),
    "the subject at last": last("sub", "another"),
  });
});

test("a_token_that_is_too_large_or_nested_opens_nothing_and_stops_nothing", async () => {
  const deep = (/** @type {number} */ levels) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
  const nested = written(
    JSON.stringify({ alg: "RS256", typ: "at+jwt", kid: issuer.rsa.kid }),
    JSON.stringify(claims()).replace(/}$/, `,"deep":${deep(5_000)}}`),
    seal(issuer.rsa),
  );
  await openNothing({
    "nested a thousand times": nested,
    "a token in a token": issuer.token(/** @type {any} */ (right()), { cty: "JWT" }),
    "more than 16 KiB": right({ more: "x".repeat(20_000) }),
    "five parts, as of an encrypted one": `${right()}.a.b`,
    "dots alone": "..",
    "no text": "\u00ff\u00fe",
  });
  for (const bytes of [100_000, 10_000_000]) {
    const { host } = new URL(team.origin);
    const head = `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${"e".repeat(bytes)}\r\n`;
    const answer = await raw(team, `${head}Content-Length: 0\r\nConnection: close\r\n\r\n`);
    // A head of ten megabytes is not read to its end.
    assert.ok(statuses(answer).every((status) => [401, 431].includes(status)), answer.slice(0, 200));
    assert.ok(bytes > 1_000_000 || statuses(answer).length === 1, answer.slice(0, 200));
  }
});

test("forgers_make_the_daemon_ask_the_issuer_for_keys_no_more_than_once", async () => {
  const before = issuer.asked.length;
  const tokens = Array.from({ length: 40 }, (_, number) => issuer.token(claims(), { kid: `unknown-${number}` }, forger));
  for (const token of tokens) assert.equal(await opens(team, token), 401);
  assert.ok(issuer.asked.length - before <= 1, `${issuer.asked}`);
});

test("a_token_counts_in_the_header_and_nowhere_else", async () => {
  const token = right();
  const nowhere = [
    mcp(team, {}, { path: `/mcp?access_token=${token}` }),
    mcp(team, {}, { path: `/mcp?token=${token}` }),
    mcp(team, { cookie: `toolrack=${token}` }),
    mcp(team, { cookie: `Authorization=Bearer ${token}` }),
    mcp(team, { "x-authorization": `Bearer ${token}` }),
    mcp(team, { "proxy-authorization": `Bearer ${token}` }),
    mcp(team, { "x-forwarded-authorization": `Bearer ${token}` }),
    mcp(team, { authorization: `Basic ${Buffer.from(`x:${token}`).toString("base64")}` }),
    mcp(team, { authorization: token }),
    mcp(team, { authorization: `Bearer ${token}, Bearer ${token}` }),
    mcp(team, { authorization: `Bearer ${token} x` }),
    mcp(team, { authorization: `DPoP ${token}` }),
  ];
  for (const answer of await Promise.all(nowhere)) await refused(answer, 401, { secrets: [token] });
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const body = `access_token=${token}`;
  await refused(await fetch(audience(), { method: "POST", headers: form, body }), 401, { secrets: [token] });
  const twice = await raw(
    team,
    `POST /mcp HTTP/1.1\r\nHost: ${new URL(team.origin).host}\r\nAuthorization: Bearer ${token}\r\n` +
      `Authorization: Bearer x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
  );
  assert.deepEqual(statuses(twice), [400]);
});

test("a_token_for_the_endpoint_opens_nothing_else", async () => {
  const places = ["/api/v1/servers", "/api/v1/me", "/api/v1/audit", "/api/v1/events", "/metrics", "/agents/a/mcp", "/mcp/"];
  for (const path of places) {
    const response = await fetch(`${team.origin}${path}`, { headers: bearer(right()) });
    await refused(response, [401, 403], { what: path });
  }
});
