// Requests to the daemon of a team that are made to be read in two ways, or to look as if they came from elsewhere.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withTeam } from "../team.mjs";
import { Agent, Client, bearer, opens, raw, refused, statuses } from "../thief.mjs";

let token = "";
const { team } = withTeam({
  begin: async (team) => {
    token = team.tokenOf("tom", "acme", "--role", "admin");
    assert.equal(await opens(team, token), 200);
  },
  end: async (team) => assert.equal(await opens(team, token), 200),
});

const host = () => new URL(team.origin).host;
const proof = () => `Authorization: Bearer ${token}\r\n`;

/** One request as it is written. @param {string} line @param {string} headers @param {string} [body] */
const sent = (line, headers, body = "") => raw(team, `${line} HTTP/1.1\r\n${headers}Connection: close\r\n\r\n${body}`);

/** What a request to `path` without a token gets. @param {string} path @param {string} [method] */
const without = (path, method = "GET") => sent(`${method} ${path}`, `Host: ${host()}\r\n`);

test("a_request_for_another_host_is_refused_also_with_a_token", async () => {
  for (const other of [
    "evil.example",
    `${host()}.evil.example`,
    `evil.example:${host().split(":")[1]}`,
    "127.0.0.1",
    "127.0.0.1:1",
    `127.1:${host().split(":")[1]}`,
    `${host()}@evil.example`,
    `${host()}/evil.example`,
    `${host()} evil.example`,
    `${host()},evil.example`,
    "",
  ]) {
    const answer = await sent("GET /api/v1/me", `Host: ${other}\r\n${proof()}`);
    assert.ok([400, 403].includes(statuses(answer)[0]), `${other}: ${answer}`);
  }
  assert.deepEqual(statuses(await sent("GET /api/v1/me", `Host: ${host()}\r\nHost: evil.example\r\n${proof()}`)), [400]);
  assert.deepEqual(statuses(await sent("GET /api/v1/me", proof())), [403]);
  const absolute = await sent("GET http://evil.example/api/v1/me", `Host: ${host()}\r\n${proof()}`);
  assert.deepEqual(statuses(absolute), [400]);
});

test("the_address_of_the_team_is_that_of_its_file_whatever_a_request_says", async () => {
  const spoofed = {
    "x-forwarded-host": "evil.example",
    "x-forwarded-proto": "https",
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-prefix": "/evil",
    "x-forwarded-port": "1",
    "x-original-host": "evil.example",
    "x-real-ip": "127.0.0.1",
    forwarded: "for=127.0.0.1;host=evil.example;proto=https",
    "x-original-url": "/api/v1/me",
    "x-rewrite-url": "/api/v1/me",
  };
  for (const path of [
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/sign-in",
    "/mcp",
    "/",
  ]) {
    const answer = await fetch(`${team.origin}${path}`, { headers: spoofed, redirect: "manual" });
    const all = `${JSON.stringify([...answer.headers])}${await answer.text()}`;
    assert.doesNotMatch(all, /evil/, path);
  }
  const location = (await fetch(`${team.origin}/sign-in`, { headers: spoofed, redirect: "manual" })).headers.get("location");
  assert.equal(new URL(String(location)).searchParams.get("redirect_uri"), `${team.origin}/sign-in/back`);
});

test("no_header_says_who_asks", async () => {
  const claims = {
    "x-forwarded-for": "127.0.0.1",
    "x-real-ip": "127.0.0.1",
    "x-forwarded-user": "ann@acme.example",
    "x-forwarded-email": "ann@acme.example",
    "x-auth-request-email": "ann@acme.example",
    "x-remote-user": "ann",
    "remote-user": "ann",
    "x-toolrack-tenant": "acme",
    "x-tenant": "acme",
    "x-user-role": "admin",
    "x-api-key": token.slice(0, 20),
    "x-original-url": "/health",
  };
  for (const path of ["/mcp", "/api/v1/me", "/api/v1/servers", "/metrics", "/agents/a/mcp"]) {
    await refused(await fetch(`${team.origin}${path}`, { headers: claims }), 401, { what: path });
  }
});

test("no_spelling_of_a_path_leads_past_the_guard", async () => {
  const spellings = [
    "//mcp",
    "///mcp",
    "/mcp/",
    "/mcp//",
    "/./mcp",
    "/x/../mcp",
    "/health/../mcp",
    "/assets/../mcp",
    "/assets/..%2f..%2fmcp",
    "/mcp%2f",
    "/mcp%2F..",
    "/%6dcp",
    "/%256dcp",
    "/MCP",
    "/mcp;x=1",
    "/mcp;/x",
    "/mcp%00",
    "/mcp%20",
    "/mcp?x=/health",
    "/mcp/x",
    "/mcp/../health",
    "//api/v1/me",
    "/api//v1/me",
    "/api/v1//me",
    "/api/v1/./me",
    "/api/v1/x/../me",
    "/api/v1/../v1/me",
    "/api/v1/..;/v1/me",
    "/api/v1/me/",
    "/api/v1/me;x",
    "/api/v1/me%2f",
    "/api%2fv1%2fme",
    "/%61pi/v1/me",
    "/API/v1/me",
    "/api\\v1\\me",
    "/health/../api/v1/me",
    "/sign-in/../api/v1/me",
    "/oauth/../api/v1/me",
    "/.well-known/oauth-x/../../api/v1/me",
    "/metrics/",
    "//metrics",
    "/%6detrics",
    "/metrics;x",
    "/agents/../api/v1/me",
    "/agents//mcp",
  ];
  for (const path of spellings) {
    for (const method of ["GET", "POST"]) {
      const answer = await without(path, method);
      const [status] = statuses(answer);
      assert.ok([400, 401, 404, 405].includes(status), `${method} ${path}: ${answer}`);
      assert.doesNotMatch(answer, /"subject"|"tenant"|toolrack_calls|"protocolVersion"|"result"/, `${method} ${path}`);
    }
  }
  // The whole address in the first line, and an asterisk.
  assert.deepEqual(statuses(await without(`http://${host()}/mcp`)), [401]);
  assert.ok([400, 401, 404, 405].includes(statuses(await without("*", "OPTIONS"))[0]));
  assert.ok([400, 403, 404, 405].includes(statuses(await without(host(), "CONNECT"))[0]));
});

test("no_file_of_the_machine_is_among_those_of_the_dashboard", async () => {
  for (const path of [
    "/../../../../etc/passwd",
    "/assets/../../../../etc/passwd",
    "/assets/..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/assets/%2e%2e/%2e%2e/Cargo.toml",
    "/assets/....//....//Cargo.toml",
    "/assets/..%5c..%5cCargo.toml",
    "/assets//etc/passwd",
    "/assets/%00",
    "/help/../../Cargo.toml",
    "/team.toml",
    "/tenants/acme/mcp.json",
    "/toolrack.db",
    "/.env",
    "/.git/config",
  ]) {
    const answer = await without(path);
    assert.ok([400, 404].includes(statuses(answer)[0]), `${path}: ${answer}`);
    assert.doesNotMatch(answer, /root:|\[package\]|client_secret|mcpServers/, path);
  }
});

test("a_request_whose_length_can_be_read_in_two_ways_is_answered_once_and_ends_its_connection", async () => {
  const inner = `GET /api/v1/me HTTP/1.1\r\nHost: ${host()}\r\n${proof()}\r\n`;
  const chunk = `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`;
  const head = `POST /health HTTP/1.1\r\nHost: ${host()}\r\n`;
  const shapes = {
    "a length and chunks": `${head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`,
    "chunks and a length": `${head}Transfer-Encoding: chunked\r\nContent-Length: ${inner.length}\r\n\r\n0\r\n\r\n${inner}`,
    "two lengths": `${head}Content-Length: 0\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
    "two lengths in one": `${head}Content-Length: 0, ${inner.length}\r\n\r\n${inner}`,
    "a length with a sign": `${head}Content-Length: +0\r\n\r\n${inner}`,
    "a length in hexadecimal": `${head}Content-Length: 0x0\r\n\r\n${inner}`,
    "a length below zero": `${head}Content-Length: -1\r\n\r\n${inner}`,
    "an unknown coding": `${head}Transfer-Encoding: xchunked\r\n\r\n${inner}`,
    "a coding behind chunks": `${head}Transfer-Encoding: chunked, identity\r\n\r\n${inner}`,
    "two codings": `${head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n${inner}`,
    "a space before the colon": `${head}Transfer-Encoding : chunked\r\n\r\n${inner}`,
    "a tab before the value of another": `${head}X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n${inner}`,
    "a bare line feed": `POST /health HTTP/1.1\nHost: ${host()}\nContent-Length: 0\nX: y\r\n\r\n`,
    "a chunk with a sign": `${head}Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n${inner}`,
    "a chunk that is too long": `${head}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n${inner}`,
  };
  // A second request that every program sees as one is answered.
  assert.match(await raw(team, `${head}Content-Length: 0\r\n\r\n${inner}`, 1_000), /"tenant"/);
  for (const [what, bytes] of Object.entries(shapes)) {
    const answer = await raw(team, bytes, 1_000);
    // What is behind is never taken for a request that a proxy did not see.
    assert.doesNotMatch(answer, /"subject"|"tenant"/, `${what}: ${answer}`);
  }
});

test("a_head_without_end_or_with_a_thousand_lines_is_not_read", async () => {
  const many = Array.from({ length: 5_000 }, (_, number) => `X-${number}: y\r\n`).join("");
  for (const [what, bytes] of Object.entries({
    "many headers": `GET /mcp HTTP/1.1\r\nHost: ${host()}\r\n${many}\r\n`,
    "a long header": `GET /mcp HTTP/1.1\r\nHost: ${host()}\r\nX: ${"y".repeat(2_000_000)}\r\n\r\n`,
    "a long address": `GET /mcp?${"y".repeat(1_000_000)} HTTP/1.1\r\nHost: ${host()}\r\n\r\n`,
    "no version": `GET /mcp\r\n\r\n`,
    "a version of tomorrow": `GET /mcp HTTP/9.9\r\nHost: ${host()}\r\n\r\n`,
    "the preface of HTTP/2 and noise": `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${"x".repeat(100)}`,
    "a TLS greeting": Buffer.from("16030100a5010000a10303", "hex"),
  })) {
    const [status] = statuses(await raw(team, bytes, 1_000));
    assert.ok(status === undefined || (status >= 400 && status < 500), `${what}: ${status}`);
  }
});

test("a_header_that_is_there_twice_is_refused", async () => {
  for (const headers of [
    `${proof()}Authorization: Bearer x\r\n`,
    `Authorization: Bearer x\r\n${proof()}`,
    `${proof()}Origin: ${team.origin}\r\nOrigin: https://evil.example\r\n`,
  ]) {
    assert.deepEqual(statuses(await sent("GET /api/v1/me", `Host: ${host()}\r\n${headers}`)), [400], headers);
  }
});

test("pages_of_other_sites_read_nothing_also_with_a_token", async () => {
  for (const origin of ["https://evil.example", "null", `${team.origin}.evil.example`, "http://127.0.0.1:1", "file://"]) {
    for (const path of ["/api/v1/me", "/mcp", "/metrics", "/openapi.json", "/"]) {
      const answer = await fetch(`${team.origin}${path}`, { headers: { origin, ...bearer(token) } });
      assert.equal(answer.headers.get("access-control-allow-origin"), null, path);
      await refused(answer, 403, { what: `${origin} ${path}` });
    }
    const preflight = { origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization" };
    const answer = await fetch(`${team.origin}/mcp`, { method: "OPTIONS", headers: preflight });
    assert.equal(answer.headers.get("access-control-allow-origin"), null);
  }
  // What clients in pages may read has no cookie and no person in it.
  const agent = new Agent(team);
  await agent.signIn("ann@acme.example");
  const client = await new Client(team).register();
  for (const path of ["/oauth/authorize", "/sign-in/back", "/sign-in"]) {
    const answer = await agent.go(path === "/oauth/authorize" ? client.asks() : `${team.origin}${path}`, { headers: { origin: "https://evil.example" } });
    assert.equal(answer.headers.get("access-control-allow-origin"), null, path);
  }
  const metadata = await fetch(`${team.origin}/.well-known/oauth-authorization-server`, { headers: { origin: "https://evil.example" } });
  assert.equal(metadata.headers.get("access-control-allow-origin"), "*");
  assert.equal(metadata.headers.get("access-control-allow-credentials"), null);
});

test("what_is_open_without_a_token_says_nothing_of_the_team", async () => {
  for (const path of ["/health", "/ready", "/openapi.json", "/", "/.well-known/oauth-authorization-server"]) {
    const answer = await fetch(`${team.origin}${path}`);
    const text = await answer.text();
    for (const word of ["acme", "bolt", team.folder, token, "s3cret"]) assert.ok(!text.includes(word), `${path}: ${word}`);
  }
});

test("a_body_that_is_larger_than_it_may_be_is_refused_at_every_door", async () => {
  const body = "x".repeat(9_000_000);
  for (const [path, type] of [
    ["/mcp", "application/json"],
    ["/api/v1/calls", "application/json"],
    ["/oauth/register", "application/json"],
    ["/oauth/token", "application/x-www-form-urlencoded"],
    ["/oauth/authorize", "application/x-www-form-urlencoded"],
  ]) {
    const headers = { "content-type": type, accept: "application/json, text/event-stream", ...(path.startsWith("/oauth") ? {} : bearer(token)) };
    const answer = await fetch(`${team.origin}${path}`, { method: "POST", headers, body }).catch(() => null);
    if (answer) await refused(answer, [400, 413], { what: path });
  }
});
