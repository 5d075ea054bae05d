// Other people's OAuth clients, unmodified, connect to the MCP endpoint of a team: a person allows each of them in a browser, and
// pastes no token.
//
// The packages of the clients are in `TOOLRACK_TEST_CLIENTS`, `TOOLRACK_TEST_NODE_MODULES`, `TOOLRACK_TEST_NODE_FRAMEWORKS`,
// `TOOLRACK_TEST_PYTHON_FRAMEWORKS` and `TOOLRACK_TEST_PYTHON`, or in `.cache/`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { BINARY, PATIENCE, ROOT } from "../stage.mjs";
import { audit, withTeam } from "../team.mjs";

/** The profile of Ann's browser. @type {any} */
let ann;

/** Gets the addresses that programs want to open. @type {(url: string) => void} */
let opened = () => {};
const opener = createServer((request, response) => {
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    response.end();
    opened(body);
  });
});

const { team, visitor } = withTeam({
  browser: true,
  begin: async (team) => {
    ann = await team.browser(visitor);
    await new Promise((listens) => opener.listen(0, "127.0.0.1", () => listens(undefined)));
    const { port } = /** @type {import("node:net").AddressInfo} */ (opener.address());
    const tell = `fetch("http://127.0.0.1:${port}/", { method: "POST", body: process.argv[1] })`;
    const script = join(team.folder, "bin/xdg-open");
    mkdirSync(join(team.folder, "bin"));
    writeFileSync(script, `#!/bin/sh\nexec '${process.execPath}' -e '${tell}' "$1"\n`);
    chmodSync(script, 0o755);
  },
  end: async () => void opener.close(),
});

/** @param {string} variable @param {string} usual */
const installed = (variable, usual) => process.env[variable] ?? join(ROOT, usual);
const clients = join(import.meta.dirname, "../clients");

/**
 * Runs a client, while Ann's browser does what she would do.
 * @param {string} program
 * @param {string[]} words
 * @returns {Promise<string>} what it prints
 */
async function runs(program, words) {
  const home = join(team.folder, "clients", String(Math.random()).slice(2));
  mkdirSync(home, { recursive: true });
  const path = `${join(team.folder, "bin")}${delimiter}${process.env.PATH}`;
  const browser = join(team.folder, "bin/xdg-open");
  const env = { HOME: home, PATH: path, BROWSER: `${browser} %s`, PYTHONDONTWRITEBYTECODE: "1", MCP_AUTO_OPEN_ENABLED: "true" };
  const asked = new Promise((found) => (opened = found));
  const child = spawn(program, words, { cwd: home, env, stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (piece) => (out += piece));
  child.stderr.on("data", (piece) => {
    err += piece;
    // Without a terminal, Toolrack opens no browser, and says the address.
    const page = /Sign in here: (\S+)\n/.exec(err)?.[1];
    if (page) opened(page);
  });
  // So does the suite of MCP.
  child.stdout.on("data", () => {
    const page = /complete the authentication process\.?\s+(http\S+)\s/.exec(out)?.[1];
    if (page) opened(page);
  });
  const ended = new Promise((end) => child.on("exit", end));
  const early = ended.then((code) => assert.fail(`it ended with ${code} before it asked: ${out} ${err}`));
  await allows(await Promise.race([asked, early]));
  assert.equal(await ended, 0, `${out} ${err}`);
  return out;
}

/**
 * Does something that sends the browser back to the client, and tries until the client has answered it. Some clients open the
 * browser before they listen for its return, and a test is faster than a user.
 * @param {any} page
 * @param {() => Promise<unknown>} act
 */
async function returns(page, act) {
  const isBack = (/** @type {{url: () => string}} */ one) => !one.url().startsWith(team.origin);
  for (const end = Date.now() + PATIENCE; ; ) {
    const ended = new Promise((done) => {
      page.on("response", (/** @type {any} */ response) => isBack(response) && done(null));
      page.on("requestfailed", (/** @type {any} */ request) => isBack(request) && done(request.url()));
    });
    await act();
    const place = await ended;
    page.removeAllListeners();
    if (place === null) return;
    assert.ok(Date.now() < end, `the client does not listen at ${place}`);
    act = () => page.goto(place).catch(() => undefined);
  }
}

/** Ann's steps on a page that a client opens. @param {string} url */
async function allows(url) {
  const page = await ann.newPage();
  await page.goto(url);
  if (page.url().startsWith(team.issuer)) await team.atProvider(page, "ann@acme.example");
  await page.getByText("acme").first().waitFor();
  await returns(page, () => page.locator('button[value="allow"]').click({ noWaitAfter: true }));
}

const url = () => `${team.origin}/mcp`;
const TOOL = "mcp__acme-shop__echo";

/** @type {[string, () => [string, string[]]][]} */
const ALL = [
  [
    "mcporter",
    () => {
      const modules = installed("TOOLRACK_TEST_CLIENTS", ".cache/bench/peers/node_modules");
      const words = [join(modules, "mcporter/dist/cli.js"), "call", url(), TOOL, "text=from a client", "--allow-http"];
      return [installed("TOOLRACK_TEST_NODE24", ".cache/bench/peers/node_modules/.bin/node"), words];
    },
  ],
  [
    "the_inspector",
    () => {
      const modules = installed("TOOLRACK_TEST_CLIENTS", ".cache/bench/peers/node_modules");
      // It does nothing when it is started by another path than its own.
      const program = realpathSync(join(modules, "@modelcontextprotocol/inspector/clients/cli/build/index.js"));
      const words = ["--method", "tools/call", "--tool-name", TOOL, "--tool-arg", "text=from a client"];
      return [installed("TOOLRACK_TEST_NODE24", ".cache/bench/peers/node_modules/.bin/node"), [program, url(), ...words]];
    },
  ],
  [
    "fastmcp",
    () => {
      const python = join(installed("TOOLRACK_TEST_PYTHON_FRAMEWORKS", ".cache/frameworks/venv"), "bin/python");
      return [python, [join(clients, "fastmcp_client.py"), url(), TOOL]];
    },
  ],
  [
    "the_python_sdk_1",
    () => {
      const python = join(installed("TOOLRACK_TEST_PYTHON_FRAMEWORKS", ".cache/frameworks/venv"), "bin/python");
      return [python, [join(clients, "sdk1_client.py"), url(), TOOL]];
    },
  ],
  [
    "the_python_sdk_2",
    () => {
      const python = join(installed("TOOLRACK_TEST_PYTHON", ".cache/venv"), "bin/python");
      return [python, [join(clients, "sdk2_client.py"), url(), TOOL]];
    },
  ],
  [
    "the_typescript_sdk_1",
    () => {
      const modules = installed("TOOLRACK_TEST_NODE_MODULES", ".cache/npm/node_modules");
      return [process.execPath, [join(clients, "sdk_client.mjs"), modules, "1", url(), TOOL]];
    },
  ],
  [
    "the_typescript_sdk_2",
    () => {
      const modules = installed("TOOLRACK_TEST_NODE_FRAMEWORKS", ".cache/frameworks/npm/node_modules");
      return [process.execPath, [join(clients, "sdk_client.mjs"), modules, "2", url(), TOOL]];
    },
  ],
];

for (const [name, command] of ALL) {
  test(`${name}_calls_a_tool_after_its_own_sign_in`, async () => {
    assert.match(await runs(...command()), /from a client/);
  });
}

/** The addresses of a client that an operator registers. @param {number} port of its callback */
async function registered(port) {
  const client = { client_name: "The suite", redirect_uris: [`http://127.0.0.1:${port}/callback`] };
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${team.origin}/oauth/register`, { method: "POST", headers, body: JSON.stringify(client) });
  assert.equal(answer.status, 201);
  return (await answer.json()).client_id;
}

/** A port on which nothing listens. @returns {Promise<number>} */
async function freePort() {
  const server = createServer();
  await new Promise((listens) => server.listen(0, "127.0.0.1", () => listens(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  await new Promise((closed) => server.close(closed));
  return port;
}

test("the_official_suite_takes_it_for_an_authorization_server", async () => {
  const port = await freePort();
  const modules = installed("TOOLRACK_TEST_NODE_MODULES", ".cache/npm/node_modules");
  const node = installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node");
  const words = ["--url", team.origin, "--client-id", await registered(port), "--resource", url(), "--port", String(port)];
  const program = join(modules, "@modelcontextprotocol/conformance/dist/index.js");
  const out = await runs(node, [program, "authorization", ...words]);
  for (const scenario of ["authorization-server-metadata-endpoint", "authorization-code-grant"]) assert.match(out, new RegExp(scenario));
  assert.doesNotMatch(out, /FAILURE|SKIPPED|WARNING/);
});

test("toolrack_signs_in_to_the_gateway_of_a_team_as_to_any_server", async () => {
  const home = join(team.folder, "another-home");
  const own = ["--mcp-config", JSON.stringify({ mcpServers: { tools: { url: url() } } })];
  const env = ["-u", "XDG_RUNTIME_DIR", `TOOLRACK_HOME=${home}`, BINARY, "--no-daemon", ...own];
  await runs("env", [...env, "login", "tools"]);
  opened = () => assert.fail("it asked once more");
  const called = spawn("env", [...env, "call", `tools/${TOOL}`, "text=from a client"], { stdio: "pipe" });
  let out = "";
  called.stdout.on("data", (piece) => (out += piece));
  assert.equal(await new Promise((end) => called.on("exit", end)), 0);
  assert.match(out, /from a client/);
});

test("the_audit_log_says_who_called", async () => {
  const calls = () => audit(team, "acme").filter((row) => row.kind === "call");
  // The row of a call is written after its answer.
  for (const end = Date.now() + PATIENCE; calls().length <= ALL.length; ) assert.ok(Date.now() < end, "a call has no row");
  for (const row of calls()) assert.equal(row.subject, "ann@acme.example", JSON.stringify(row));
  assert.ok(calls().some((row) => row.client === "mcporter"));
});
