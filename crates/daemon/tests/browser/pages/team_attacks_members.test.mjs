// Members of a team who reach for what belongs to other members and to other tenants.

import assert from "node:assert/strict";
import { test } from "node:test";
import { audit, withTeam } from "../team.mjs";
import { bearer, mcp, opens, refused } from "../thief.mjs";

/** The tokens of members, by their names. @type {Record<string, string>} */
const tokens = {};
/** A word in what members of acme send. */
const CANARY = "canary-of-acme-7f3a";

const { team } = withTeam({
  begin: async (team) => {
    for (const [name, tenant, role, ...more] of [
      ["ann", "acme", "user"],
      ["eve", "acme", "user"],
      ["vic", "acme", "viewer"],
      ["olga", "acme", "operator"],
      ["ada", "acme", "admin"],
      ["nightly", "acme", "user", "--service"],
      ["bob", "bolt", "user"],
      ["boss", "bolt", "admin"],
    ]) {
      tokens[name] = team.tokenOf(name, tenant, "--role", role, ...more);
    }
    for (const name of ["ann", "bob"]) assert.equal(await opens(team, tokens[name]), 200);
  },
});

/** @param {string} name @param {string} path @param {RequestInit & {headers?: Record<string, string>}} [options] */
const as = (name, path, { headers = {}, ...options } = {}) =>
  fetch(`${team.origin}${path}`, { ...options, headers: { ...bearer(tokens[name]), ...headers } });

/** @param {string} name @param {string} path @param {unknown} body @param {string} [method] */
const sends = (name, path, body, method = "POST") =>
  as(name, path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/** @param {string} name @param {string} tool @param {object} [given] @param {object} [more] */
const calls = (name, tool, given = {}, more = {}) => sends(name, "/api/v1/calls", { tool, arguments: given, ...more });

/** Waits until `found` gives something. @template T @param {() => Promise<T | undefined>} found @returns {Promise<T>} */
async function soon(found) {
  for (const end = Date.now() + 30_000; ; await new Promise((next) => setTimeout(next, 50))) {
    const one = await found();
    if (one !== undefined) return one;
    assert.ok(Date.now() < end, "it does not happen");
  }
}

test("a_member_reaches_no_server_of_another_tenant", async () => {
  assert.equal((await calls("bob", "bolt-shop/echo", { text: "x" })).status, 200);
  for (const tool of ["acme-shop/echo", "mcp__acme-shop__echo", "acme/acme-shop/echo", "../acme/acme-shop/echo"]) {
    await refused(await calls("bob", tool, { text: "x" }), 404, { what: tool });
  }
  for (const path of ["", "/tools", "/logs", "/resources", "/prompts", "/sign-in"]) {
    for (const name of ["bob", "boss"]) await refused(await as(name, `/api/v1/servers/acme-shop${path}`), [403, 404, 405], { what: path });
  }
  for (const path of ["reconnect", "disable", "enable", "disconnect", "test"]) {
    await refused(await sends("boss", `/api/v1/servers/acme-shop/${path}`, {}), [403, 404], { what: path });
  }
  const called = await (await mcp(team, bearer(tokens.bob), { method: "tools/call", params: { name: "mcp__acme-shop__echo", arguments: { text: "x" } } })).json();
  assert.ok(called.error || called.result.isError, JSON.stringify(called));
  for (const path of ["/api/v1/servers", "/api/v1/tools", "/api/v1/overview", "/api/v1/config", "/api/v1/trust"]) {
    assert.doesNotMatch(await (await as("boss", path)).text(), /acme/, path);
  }
});

test("a_tenant_that_a_request_names_is_not_the_one_that_answers", async () => {
  const headers = { "x-tenant": "acme", "x-toolrack-tenant": "acme", "x-forwarded-host": "acme", tenant: "acme", cookie: "tenant=acme" };
  for (const path of ["/api/v1/servers", "/api/v1/tools", "/api/v1/me"]) {
    assert.doesNotMatch(await (await as("boss", path, { headers })).text(), /acme/, path);
    const named = await (await as("boss", `${path}?tenant=acme`)).text();
    assert.doesNotMatch(named, /acme-shop/, path);
  }
  for (const path of ["/t/acme/mcp", "/t/none/mcp", "/t/acme/p/few/mcp"]) {
    await refused(await as("boss", path, { method: "POST" }), 403, { what: path });
  }
  for (const path of ["/acme/mcp", "/tenants/acme/mcp", "/mcp/acme", "/api/v1/tenants/acme/servers"]) {
    await refused(await as("boss", path, { method: "POST" }), [404, 405], { what: path });
  }
  // A profile is one of the tenant of the member, whatever its name.
  const ask = { method: "tools/list", params: {}, path: "/p/acme/mcp" };
  await refused(await mcp(team, bearer(tokens.bob), ask), 404, { what: ask.path });
  const few = await (await mcp(team, bearer(tokens.bob), { ...ask, path: "/p/few/mcp" })).text();
  assert.match(few, /bolt-shop/);
  assert.doesNotMatch(few, /acme-shop/);
  const list = await (await mcp(team, { ...bearer(tokens.bob), ...headers }, { params: { tenant: "acme", _meta: { tenant: "acme" } } })).text();
  assert.match(list, /bolt-shop/);
  assert.doesNotMatch(list, /acme-shop/);
});

test("a_session_of_another_member_or_tenant_is_unknown", async () => {
  const body = (/** @type {string} */ method, params = {}) => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const accept = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const client = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
  const begun = await as("ann", "/mcp", { method: "POST", headers: accept, body: body("initialize", client) });
  const session = { "mcp-session-id": String(begun.headers.get("mcp-session-id")) };
  const list = (/** @type {string} */ name) => as(name, "/mcp", { method: "POST", headers: { ...accept, ...session }, body: body("tools/list") });
  assert.equal((await list("ann")).status, 200);
  for (const name of ["eve", "olga", "ada", "bob", "boss"]) {
    await refused(await list(name), 404, { what: name, secrets: [session["mcp-session-id"]] });
    await refused(await as(name, "/mcp", { headers: { accept: "text/event-stream", ...session } }), 404, { what: name });
    await refused(await as(name, "/mcp", { method: "DELETE", headers: session }), 404, { what: name });
    const cancel = JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
    await refused(await as(name, "/mcp", { method: "POST", headers: { ...accept, ...session }, body: cancel }), 404, { what: name });
  }
  assert.equal((await list("ann")).status, 200);
  for (const id of ["", "x", "../x", "0".repeat(32), `${session["mcp-session-id"]}x`]) {
    await refused(await as("ann", "/mcp", { method: "POST", headers: { ...accept, "mcp-session-id": id }, body: body("tools/list") }), [400, 404], { what: id });
  }
});

test("a_call_that_waits_for_its_caller_goes_on_for_no_one_else", async () => {
  const params = { name: "mcp__acme-shop__ask", arguments: {}, _meta: { "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {}, url: {} } } } };
  const begun = await (await mcp(team, bearer(tokens.ann), { method: "tools/call", params })).json();
  const { requestState, inputRequests } = begun.result;
  assert.ok(requestState, JSON.stringify(begun));
  const [key] = Object.keys(inputRequests);
  const inputResponses = { [key]: { action: "accept", content: { name: "a thief", likes: "tea" } } };
  const again = (/** @type {string} */ name, more = {}) =>
    mcp(team, bearer(tokens[name]), { method: "tools/call", params: { ...params, requestState, inputResponses, ...more } });
  for (const name of ["eve", "olga", "ada", "nightly", "bob", "boss"]) {
    const answer = await (await again(name)).json();
    assert.ok(answer.error || answer.result?.isError, `${name}: ${JSON.stringify(answer)}`);
    assert.doesNotMatch(JSON.stringify(answer), /Hello|Who are you/, name);
  }
  for (const more of [{ requestState: `${requestState}x` }, { requestState: "0".repeat(32) }, { name: "mcp__acme-shop__echo" }, { arguments: { x: 1 } }]) {
    const answer = await (await again("ann", more)).json();
    assert.ok(answer.error || answer.result?.isError, JSON.stringify(answer));
  }
  assert.match(JSON.stringify(await (await again("ann")).json()), /Hello, a thief/);
  const twice = await (await again("ann")).json();
  assert.ok(twice.error || twice.result?.isError, "once");
});

test("a_question_of_another_member_is_neither_seen_nor_answered", async () => {
  const asked = calls("ann", "acme-shop/ask");
  const open = async (/** @type {string} */ name) => (await (await as(name, "/api/v1/approvals")).json()).approvals;
  const [question] = await soon(async () => ((all) => (all.length > 0 ? all : undefined))(await open("ann")));
  for (const name of ["eve", "nightly", "bob", "boss"]) {
    assert.deepEqual(await open(name), [], name);
    for (const answer of ["accept", "decline", "cancel", "deny", "always_server"]) {
      await refused(await sends(name, `/api/v1/approvals/${question.id}`, { answer, content: { name: "x" } }), [403, 404, 422], { what: name });
    }
  }
  await refused(await as("vic", "/api/v1/approvals"), 403);
  assert.equal((await open("ann")).length, 1);
  assert.equal((await sends("ann", `/api/v1/approvals/${question.id}`, { answer: "accept", content: { name: "Ann" } })).status, 204);
  assert.match(await (await asked).text(), /Hello, Ann/);
});

test("a_call_of_another_member_is_not_cancelled_and_its_name_is_free_for_others", async () => {
  /** @type {Promise<Response>[]} */
  const begun = [];
  let isOver = true;
  // The same name, while that of Ann runs. If the second call arrives first, the daemon refuses the slow one, which begins again.
  await soon(async () => {
    if (isOver) {
      isOver = false;
      begun.push(calls("ann", "acme-shop/slow", { steps: 8, pause: 100 }, { id: "1" }).finally(() => (isOver = true)));
    }
    return (await calls("ann", "acme-shop/echo", { text: "x" }, { id: "1" })).status === 409 ? true : undefined;
  });
  assert.equal((await calls("eve", "acme-shop/echo", { text: "x" }, { id: "1" })).status, 200);
  for (const name of ["eve", "olga", "ada", "bob", "boss"]) {
    await refused(await as(name, "/api/v1/calls/1", { method: "DELETE" }), 404, { what: name });
  }
  assert.equal((await begun.at(-1))?.status, 200);
  const own = calls("ann", "acme-shop/slow", { steps: 100, pause: 100 }, { id: "2" });
  await soon(async () => ((await as("ann", "/api/v1/calls/2", { method: "DELETE" })).status === 204 ? true : undefined));
  assert.equal((await own).status, 409);
});

test("the_events_of_a_tenant_are_in_no_stream_of_another", async () => {
  const stop = new AbortController();
  const stream = async (/** @type {string} */ name, headers = {}) => {
    const response = await as(name, "/api/v1/events", { headers, signal: stop.signal });
    assert.equal(response.status, 200);
    let text = "";
    const read = (async () => {
      for await (const piece of /** @type {any} */ (response.body).pipeThrough(new TextDecoderStream())) text += piece;
    })().catch(() => undefined);
    return { read, text: () => text };
  };
  const own = await stream("olga");
  const others = [await stream("boss"), await stream("boss", { "last-event-id": "0" }), await stream("boss", { "last-event-id": "1" })];
  await calls("ann", "acme-shop/echo", { text: CANARY });
  await calls("bob", "bolt-shop/echo", { text: "of bolt" });
  const acme = await soon(async () => /tool_started[\s\S]*acme-shop/.exec(own.text()) ?? undefined);
  const id = /^id: (.+)$/m.exec(own.text())?.[1] ?? "1";
  others.push(await stream("boss", { "last-event-id": id }));
  for (const other of others.slice(0, 3)) await soon(async () => (/bolt-shop/.test(other.text()) ? true : undefined));
  for (const other of others) assert.doesNotMatch(other.text(), /acme|canary/);
  assert.ok(acme);
  stop.abort();
});

test("the_events_of_a_call_are_in_no_stream_of_another_member", async () => {
  const stop = new AbortController();
  const texts = new Map();
  for (const name of ["ann", "eve", "vic", "nightly"]) {
    const response = await as(name, "/api/v1/events", { headers: { "last-event-id": "0" }, signal: stop.signal });
    assert.equal(response.status, 200, name);
    texts.set(name, "");
    (async () => {
      for await (const piece of /** @type {any} */ (response.body).pipeThrough(new TextDecoderStream())) texts.set(name, texts.get(name) + piece);
    })().catch(() => undefined);
  }
  await calls("ann", "acme-shop/slow", { steps: 2, pause: 10 }, { id: "of-ann" });
  await calls("eve", "acme-shop/echo", { text: "of eve" });
  const ended = (/** @type {string} */ name) => [...texts.get(name).matchAll(/"outcome"/g)].length;
  await soon(async () => (ended("ann") >= 1 && ended("eve") >= 1 ? true : undefined));
  const tools = (/** @type {string} */ name) => new Set([...texts.get(name).matchAll(/"tool":"([^"]+)"/g)].map(([, tool]) => tool));
  assert.ok(!tools("eve").has("slow"));
  for (const name of ["vic", "nightly"]) assert.doesNotMatch(texts.get(name), /tool_started|tool_completed|tool_progress|mcp_server_stderr/, name);
  for (const text of texts.values()) assert.doesNotMatch(text, /config_changed|bolt/);
  stop.abort();
});

test("a_conversation_of_a_member_is_there_for_no_other", async () => {
  for (const name of ["eve", "olga", "nightly"]) {
    await refused(await as(name, "/api/v1/sessions?of=all"), 403, { what: name });
    assert.deepEqual((await (await as(name, "/api/v1/sessions")).json()).sessions, []);
  }
  for (const model of ["mock/etc/passwd", "ollama/any", "openai/gpt"]) {
    await refused(await sends("ann", "/api/v1/turns", { text: "hello", model }), 403, { what: model });
  }
  await refused(await sends("ada", "/api/v1/turns", { text: "hello", model: "mock//etc/passwd" }), 403);
});

test("the_audit_log_metrics_and_conversations_of_a_tenant_are_its_own", async () => {
  await calls("ann", "acme-shop/echo", { text: CANARY });
  await calls("bob", "bolt-shop/echo", { text: "of bolt" });
  for (const path of ["/api/v1/audit?limit=500", "/metrics", "/api/v1/sessions", "/api/v1/overview", "/api/v1/answers", "/api/v1/agents"]) {
    const text = await (await as("boss", path)).text();
    assert.doesNotMatch(text, new RegExp(`acme|${CANARY}`), path);
    if (path !== "/metrics") for (const name of ["ann", "vic"]) assert.ok([200, 403].includes((await as(name, path)).status), path);
  }
  for (const name of ["ann", "eve", "vic", "olga", "nightly"]) {
    for (const path of ["/api/v1/audit", "/api/v1/sessions?of=all"]) await refused(await as(name, path), 403, { what: `${name} ${path}` });
  }
  for (const query of ["tenant=acme", "home=../acme", "file=../acme/toolrack.db"]) {
    const answer = await as("boss", `/api/v1/audit?${query}`);
    assert.doesNotMatch(await answer.text(), /acme-shop|canary/, query);
  }
  assert.ok(audit(team, "bolt").every((/** @type {any} */ row) => !JSON.stringify(row).includes("acme")));
});

test("no_agent_of_the_daemon_or_of_another_tenant_answers_a_member", async () => {
  for (const name of ["ann", "ada", "boss"]) {
    for (const path of ["/agents/acme/mcp", "/agents/local/mcp", "/agents/../mcp", "/agents/x/api/v1/me"]) {
      await refused(await as(name, path, { method: "POST" }), [400, 401, 403, 404, 405, 415], { what: `${name} ${path}` });
    }
    await refused(await sends(name, "/api/v1/agents/x/token", {}), [403, 404], { what: name });
  }
});

test("no_role_is_raised_by_what_a_request_says", async () => {
  const claims = { "x-role": "admin", "x-user-role": "admin", "x-toolrack-role": "admin", role: "admin" };
  for (const [name, path, method] of [
    ["vic", "/api/v1/calls", "POST"],
    ["ann", "/api/v1/servers/acme-shop/reconnect", "POST"],
    ["ann", "/api/v1/servers/acme-shop/disable", "POST"],
    ["ann", "/api/v1/config", "GET"],
    ["ann", "/api/v1/config/reload", "POST"],
    ["ann", "/api/v1/audit", "GET"],
    ["ann", "/metrics", "GET"],
    ["olga", "/api/v1/audit", "GET"],
    ["vic", "/api/v1/sessions", "GET"],
    ["ada", "/api/v1/servers", "POST"],
    ["ada", "/api/v1/servers/acme-shop", "DELETE"],
    ["ada", "/api/v1/import", "POST"],
    ["boss", "/api/v1/import", "GET"],
  ]) {
    const body = method === "POST" ? JSON.stringify({ role: "admin", tool: "acme-shop/echo", arguments: {} }) : undefined;
    const headers = { "content-type": "application/json", ...claims };
    await refused(await as(name, `${path}?role=admin`, { method, headers, body }), [400, 403], { what: `${name} ${method} ${path}` });
    await refused(await as(name, path, { method, headers, body }), 403, { what: `${name} ${method} ${path}` });
  }
  for (const method of ["PUT", "PATCH", "POST"]) await refused(await sends("ann", "/api/v1/me", { role: "admin" }, method), [404, 405], { what: method });
  await refused(await calls("vic", "acme-shop/echo", { text: "x" }), 403);
  await refused(await mcp(team, bearer(tokens.vic)), 403);
});

test("a_service_approves_no_call_and_no_member_gives_values_that_no_server_needs", async () => {
  await refused(await calls("nightly", "acme-shop/echo", { text: "x" }, { approved: true }), 403);
  assert.equal((await calls("nightly", "acme-shop/echo", { text: "x" })).status, 200);
  for (const name of ["PATH", "LD_PRELOAD", "CLIENT_SECRET", "../x", "%2e%2e%2fx"]) {
    await refused(await sends("ann", `/api/v1/me/credentials/${name}`, { value: "x" }, "PUT"), [400, 404, 409, 422], { what: name });
    await refused(await as("ann", `/api/v1/me/credentials/${name}`, { method: "DELETE" }), [400, 404], { what: name });
  }
  await refused(await sends("vic", "/api/v1/me/credentials/NAME", { value: "x" }, "PUT"), 403);
});

test("the_open_streams_of_a_removed_member_end_within_a_second", async () => {
  tokens.zoe = team.tokenOf("zoe", "acme", "--role", "operator");
  const events = await as("zoe", "/api/v1/events");
  const call = calls("zoe", "acme-shop/slow", { steps: 100, pause: 100 });
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const body = JSON.stringify({ tool: "acme-shop/slow", arguments: { steps: 100, pause: 100 } });
  const progress = await as("zoe", "/api/v1/calls", { method: "POST", headers, body });
  assert.deepEqual([events.status, progress.status], [200, 200]);
  team.run("team", "remove", "zoe");
  const begun = Date.now();
  const over = Promise.all([events.text(), progress.text(), call.then(({ status }) => assert.equal(status, 401))]);
  await Promise.race([over, new Promise((_, late) => setTimeout(() => late(new Error("a stream is still open")), 3_000).unref())]);
  assert.ok(Date.now() - begun < 2_000, `${Date.now() - begun} ms`);
  assert.equal(await opens(team, tokens.zoe), 401);
});
