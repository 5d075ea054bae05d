// People who sign in at the provider with a browser, and allow a client of 2025-11-25 there. Its tokens are renewed all the time,
// and its session must survive that. Now and then a person signs out, and in again.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";

import { canary, counts, delays, found, guests, look } from "./people.mjs";
import { each } from "./settings.mjs";
import { asks, hasStatus, inSession, session, until } from "./wire.mjs";

const BACK = "http://127.0.0.1:4999/back";
/** How often a client renews its tokens before its person allows it anew: the daemon bounds how many count at once. */
const RENEWALS = 6;

/** A browser: it keeps cookies by origin and name. */
class Browser {
  #cookies = new Map();

  async send(/** @type {string | URL} */ to, /** @type {Record<string, string> | undefined} */ form) {
    const url = new URL(to);
    const own = [...this.#cookies].filter(([key]) => key.startsWith(`${url.origin} `));
    const response = await fetch(url, {
      method: form ? "POST" : "GET",
      body: form && new URLSearchParams(form),
      redirect: "manual",
      headers: { cookie: own.map(([key, value]) => `${key.split(" ")[1]}=${value}`).join("; "), connection: "close" },
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "") this.#cookies.delete(`${url.origin} ${name}`);
      else this.#cookies.set(`${url.origin} ${name}`, value);
    }
    const location = response.headers.get("location");
    return { url, status: response.status, location: location && new URL(location, url), text: await response.text() };
  }

  cookie(/** @type {string} */ origin, /** @type {string} */ name) {
    const value = this.#cookies.get(`${origin} ${name}`);
    return value && `${name}=${value}`;
  }

  /** Follows redirects as long as they lead to `origins`. */
  async follow(to, origins) {
    let answer = await this.send(to);
    for (let left = 20; answer.location && origins.includes(answer.location.origin); left -= 1) {
      assert.ok(left > 0, `redirects without end, the last to ${answer.location}`);
      answer = await this.send(answer.location);
    }
    return answer;
  }
}

const unescaped = (text) => text.replace(/&(amp|quot|lt|gt|#x27|#39);/g, (_, name) => ({ amp: "&", quot: '"', lt: "<", gt: ">" })[name] ?? "'");
function field(page, name) {
  const found_ = new RegExp(`name="${name}" value="([^"]*)"`).exec(page.text);
  assert.ok(found_, `${page.url} has no field ${name}: ${page.status} ${page.text.slice(0, 500)}`);
  return unescaped(found_[1]);
}

/** Fills in the forms of the provider, to which `from` leads: who signs in, and that the team may know it. */
async function signIn(who, origin, from) {
  const browser = who.browser;
  let page = await browser.send(from);
  const origins = [origin, page.location?.origin];
  page = await browser.follow(page.location, origins);
  for (let forms = 0; forms < 3 && /name="prompt"/.test(page.text); forms += 1) {
    const action = new URL(unescaped(/action="([^"]*)"/.exec(page.text)?.[1] ?? ""), page.url);
    const sent = await browser.send(action, { prompt: field(page, "prompt"), login: who.name, password: "any" });
    page = await browser.follow(sent.location, origins);
  }
  who.cookie = browser.cookie(origin, "toolrack");
  assert.ok(who.cookie, `${who.name} is not signed in: ${page.status} ${page.url} ${page.text.slice(0, 500)}`);
  return page;
}

async function register() {
  const registration = { client_name: "A client of the drill", redirect_uris: [BACK] };
  const registered = await asks({ token: "" }, "POST", "/oauth/register", registration, { authorization: "" });
  assert.equal(registered.status, 201, registered.text);
  return JSON.parse(registered.text).client_id;
}

/** Has the client of the person allowed, and given tokens. */
async function allow(who, origin) {
  who.renewals = 0;
  who.client ??= await register();
  const verifier = randomBytes(32).toString("hex");
  const asked = new URL("/oauth/authorize", origin);
  const parameters = {
    response_type: "code",
    client_id: who.client,
    redirect_uri: BACK,
    state: "a state",
    scope: "mcp",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
    resource: `${origin}/mcp`,
  };
  for (const [name, value] of Object.entries(parameters)) asked.searchParams.set(name, value);
  const page = await who.browser.send(asked);
  look(who, "the consent", page.text);
  const seal = Object.fromEntries(["request", "ends", "seal"].map((name) => [name, field(page, name)]));
  const { location } = await who.browser.send(new URL("/oauth/authorize", origin), { ...seal, answer: "allow" });
  const code = location?.searchParams.get("code");
  assert.ok(code, `the client of ${who.name} got no code: ${location}`);
  await tokens(who, origin, {
    grant_type: "authorization_code",
    code,
    redirect_uri: BACK,
    code_verifier: verifier,
    resource: `${origin}/mcp`,
  });
}

async function tokens(who, origin, form) {
  const answer = await new Browser().send(new URL("/oauth/token", origin), { client_id: who.client, ...form });
  assert.equal(answer.status, 200, answer.text);
  const { access_token, refresh_token } = JSON.parse(answer.text);
  who.of_client = { tenant: who.tenant, number: who.number, name: who.name, role: who.role, token: access_token };
  who.refresh = refresh_token;
}

/** Has all guests sign in and allow a client, each with a session. */
export async function welcome(listen) {
  const origin = `http://${listen}`;
  await each(guests, 2, async (who) => {
    who.browser = new Browser();
    await signIn(who, origin, new URL("/sign-in", origin));
    await allow(who, origin);
    who.session = await session(who.of_client);
  });
}

/** Whether the session of the client of `who` still answers. */
async function goesOn(who) {
  const params = { name: "mcp__shared__echo", arguments: { text: canary("arg", who) } };
  const answer = await inSession(who.of_client, who.session, { id: 2, method: "tools/call", params });
  look(who, "a call in a session", answer.text);
  if (answer.status === 200 && answer.text.includes("res-")) return;
  counts.lostSessions += 1;
  found(`the session of ${who.name} is lost: ${answer.status} ${answer.text.slice(0, 300)}`);
  who.session = await session(who.of_client);
}

/** Renews the tokens of one client, and now and then has its person sign out and in. */
export async function visit(round, listen) {
  const origin = `http://${listen}`;
  const who = guests[round % guests.length];
  if (who.renewals === RENEWALS) await allow(who, origin);
  await tokens(who, origin, { grant_type: "refresh_token", refresh_token: who.refresh });
  who.renewals += 1;
  counts.renewals += 1;
  await goesOn(who);
  if (Math.random() > 0.3) return;
  who.isChanging = true;
  who.changes = (who.changes ?? 0) + 1;
  const before = { ...who };
  const out = await who.browser.send(new URL("/sign-out", origin), {});
  assert.equal(out.status, 303, out.text);
  delays["sign-outs"].push(await until(hasStatus(401), () => asks(before, "GET", "/api/v1/me")));
  await signIn(who, origin, new URL("/sign-in", origin));
  // The client of the person was not signed out.
  await goesOn(who);
  who.changes += 1;
  who.isChanging = false;
}
