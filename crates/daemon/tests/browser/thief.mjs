// What an attacker of a team's front door has: programs that send what no browser and no honest client sends.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { connect } from "node:net";
import { PATIENCE } from "./stage.mjs";
import { audit } from "./team.mjs";

/** Words that no answer to a stranger has. */
const INSIDE = /panicked|RUST_BACKTRACE|stack backtrace|\.rs:\d+|SELECT |sqlite|thread '/i;

/** What a page shows for these characters. @param {string} text */
const unescaped = (text) =>
  text.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

/** The fields of the first form of a page. @param {string} page */
export function fields(page) {
  const form = /<form[^>]*>[\s\S]*?<\/form>/.exec(page)?.[0] ?? "";
  const inputs = [...form.matchAll(/<input[^>]*>/g)].map(([input]) => {
    const value = (/** @type {string} */ name) => unescaped(new RegExp(` ${name}="([^"]*)"`).exec(input)?.[1] ?? "");
    return [value("name"), value("value")];
  });
  return { action: unescaped(/action="([^"]*)"/.exec(form)?.[1] ?? ""), values: Object.fromEntries(inputs) };
}

/** A browser without pages: it keeps cookies and goes where it is sent. */
export class Agent {
  /** @type {Map<string, Map<string, string>>} */
  jars = new Map();

  /** @param {import("./team.mjs").Team} team */
  constructor(team) {
    this.team = team;
  }

  /** @param {string} origin */
  jar(origin) {
    const jar = this.jars.get(origin) ?? new Map();
    this.jars.set(origin, jar);
    return jar;
  }

  /** The value of the cookie of a session. */
  get session() {
    return this.jar(this.team.origin).get("toolrack");
  }

  /** What is sent for the session. */
  get cookie() {
    return `toolrack=${this.session}`;
  }

  /** One request, without following where it leads. @param {string | URL} url @param {RequestInit & {headers?: Record<string, string>}} [options] */
  async go(url, { headers = {}, ...options } = {}) {
    const jar = this.jar(new URL(url).origin);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { redirect: "manual", ...options, headers: { cookie, ...headers } });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "" || /max-age=0/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }

  /** A form, as a page of the team would send it. @param {string} path @param {Record<string, string>} values @param {Record<string, string>} [headers] */
  form(path, values, headers = { origin: this.team.origin }) {
    const sent = { "content-type": "application/x-www-form-urlencoded", ...headers };
    return this.go(`${this.team.origin}${path}`, { method: "POST", headers: sent, body: new URLSearchParams(values) });
  }

  /**
   * Goes on to where an answer leads, and fills in the forms of the provider as `address`.
   * @param {Response} response
   * @param {string} address
   * @param {(url: URL) => boolean} [stops] where not to go
   * @returns {Promise<{url: URL, response: Response}>}
   */
  async through(response, address, stops = () => false) {
    for (let step = 0; step < 20; step += 1) {
      const here = new URL(response.url);
      const location = response.headers.get("location");
      if (location !== null) {
        const url = new URL(location, here);
        if (stops(url)) return { url, response };
        response = await this.go(url);
      } else if (here.origin === this.team.issuer) {
        const { action, values } = fields(await response.text());
        const body = new URLSearchParams({ ...values, login: address, password: "any" });
        response = await this.go(new URL(action, here), { method: "POST", body });
      } else {
        return { url: here, response };
      }
    }
    return assert.fail("the way has no end");
  }

  /** Signs in. @param {string} address @param {string} [to] */
  async signIn(address, to = "/") {
    const begun = await this.go(`${this.team.origin}/sign-in?to=${encodeURIComponent(to)}`);
    const came = await this.through(begun, address);
    assert.match(String(this.session), /^trb_/);
    return came;
  }
}

/** A client that registers, asks, and exchanges. */
export class Client {
  /** @param {import("./team.mjs").Team} team @param {string} [redirect] */
  constructor(team, redirect = "http://127.0.0.1:4711/back") {
    this.team = team;
    this.redirect = redirect;
    this.verifier = randomBytes(32).toString("base64url");
  }

  /** @param {unknown} body */
  static registers(team, body) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const headers = { "content-type": "application/json" };
    return fetch(`${team.origin}/oauth/register`, { method: "POST", headers, body: text });
  }

  /** @param {object} [more] */
  async register(more = {}) {
    const response = await Client.registers(this.team, { client_name: "a client", redirect_uris: [this.redirect], ...more });
    assert.equal(response.status, 201);
    this.id = (await response.json()).client_id;
    return this;
  }

  get challenge() {
    return createHash("sha256").update(this.verifier).digest("base64url");
  }

  /** The address with which it asks; `undefined` leaves a parameter out. @param {Record<string, string | undefined>} [more] */
  asks(more = {}) {
    const all = {
      response_type: "code",
      client_id: this.id,
      redirect_uri: this.redirect,
      code_challenge: this.challenge,
      code_challenge_method: "S256",
      state: "the state of the client",
      ...more,
    };
    const known = Object.entries(all).filter(([, value]) => value !== undefined);
    return `${this.team.origin}/oauth/authorize?${new URLSearchParams(/** @type {any} */ (known))}`;
  }

  /** The code that a signed-in person gives it. @param {Agent} agent @param {Record<string, string>} [more] */
  async code(agent, more = {}) {
    const page = await agent.go(this.asks(more));
    assert.equal(page.status, 200, `${page.headers.get("location")}`);
    const { values } = fields(await page.text());
    const answer = await agent.form("/oauth/authorize", { ...values, answer: "allow" });
    const back = new URL(String(answer.headers.get("location")));
    return String(back.searchParams.get("code"));
  }

  /** @param {Record<string, string | undefined>} values @param {string} [path] */
  posts(values, path = "/oauth/token") {
    const known = Object.entries(values).filter(([, value]) => value !== undefined);
    const body = new URLSearchParams(/** @type {any} */ (known));
    return fetch(`${this.team.origin}${path}`, { method: "POST", body });
  }

  /** @param {string} code @param {Record<string, string | undefined>} [more] */
  exchanges(code, more = {}) {
    const own = { client_id: this.id, redirect_uri: this.redirect, code_verifier: this.verifier };
    return this.posts({ grant_type: "authorization_code", code, ...own, ...more });
  }

  /** @param {string} token @param {Record<string, string | undefined>} [more] */
  renews(token, more = {}) {
    return this.posts({ grant_type: "refresh_token", refresh_token: token, client_id: this.id, ...more });
  }

  /** The tokens that a signed-in person gives it. @param {Agent} agent */
  async tokens(agent) {
    const response = await this.exchanges(await this.code(agent));
    assert.equal(response.status, 200);
    return response.json();
  }
}

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "thief", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** Asks the MCP endpoint. @param {import("./team.mjs").Team} team @param {Record<string, string>} headers @param {{method?: string, params?: any, path?: string}} [what] */
export function mcp(team, headers, { method = "tools/list", params = {}, path = "/mcp" } = {}) {
  const named = params.name === undefined ? {} : { "mcp-name": params.name };
  return fetch(`${team.origin}${path}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...named,
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: { ...META, ...params._meta } } }),
  });
}

/** @param {string} token */
export const bearer = (token) => ({ authorization: `Bearer ${token}` });

/** The status that a token has at the MCP endpoint. @param {import("./team.mjs").Team} team @param {string} token */
export const opens = async (team, token) => (await mcp(team, bearer(token))).status;

/**
 * That an answer is a refusal, which says nothing of what is inside and repeats no secret.
 * @param {Response} response
 * @param {number | number[]} statuses
 * @param {{what?: string, secrets?: string[]}} [more]
 */
export async function refused(response, statuses, { what = "", secrets = [] } = {}) {
  const text = await response.text();
  const all = `${response.status} ${JSON.stringify([...response.headers])} ${text}`;
  assert.ok([statuses].flat().includes(response.status), `${what}: ${all}`);
  assert.doesNotMatch(all, INSIDE, what);
  for (const secret of secrets) assert.ok(!all.includes(secret), `${what}: ${all} repeats ${secret}`);
  return text;
}

/**
 * Waits for a row of the audit log about a refusal with this code; a row is written a moment after the answer.
 * @param {import("./team.mjs").Team} team
 * @param {string} code
 * @param {RegExp} [why]
 */
export async function told(team, code, why = /./) {
  for (const end = Date.now() + PATIENCE; ; await new Promise((next) => setTimeout(next, 100))) {
    const refusals = audit(team).filter((/** @type {any} */ row) => row.kind === "refused_at_the_door");
    if (refusals.some((/** @type {any} */ row) => row.code === code && why.test(row.why))) return;
    const codes = new Set(refusals.map((/** @type {any} */ row) => `${row.code}: ${row.why}`));
    assert.ok(Date.now() < end, `no row about ${code}, only ${[...codes].join("; ")}`);
  }
}

/**
 * Sends bytes as they are, and returns all that comes back.
 * @param {import("./team.mjs").Team} team
 * @param {string | Buffer} bytes
 * @param {number} [patience] in ms, for a connection that stays open
 * @returns {Promise<string>}
 */
export function raw(team, bytes, patience = 3_000) {
  const { hostname, port } = new URL(team.origin);
  return new Promise((done) => {
    const socket = connect(Number(port), hostname);
    let text = "";
    const over = () => {
      socket.destroy();
      done(text);
    };
    const timer = setTimeout(over, patience);
    socket.on("data", (piece) => (text += piece.toString("latin1")));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearTimeout(timer);
      over();
    });
    socket.write(bytes);
  });
}

/** The statuses in what came back. @param {string} text */
export const statuses = (text) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));

/** A server of the attacker, which counts who comes. @param {(url: string) => {status?: number, headers?: Record<string, string>, body?: string}} [answer] */
export async function trap(answer = () => ({ status: 404 })) {
  /** @type {string[]} */
  const visits = [];
  const server = createServer((request, response) => {
    visits.push(String(request.url));
    const { status = 200, headers = {}, body = "" } = answer(String(request.url));
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body);
  });
  await new Promise((listens) => server.listen(0, "127.0.0.1", () => listens(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    visits,
    url: `http://127.0.0.1:${port}`,
    end() {
      server.closeAllConnections();
      server.close();
    },
  };
}
