// What every test of a page needs: a daemon with a home of its own, and a page in a real browser that shows it.
//
// The daemon is `TOOLRACK_TEST_BINARY`, or the debug build; the packages are in `TOOLRACK_TEST_DASHBOARD`, or in `.cache/`;
// the browser is Debian's Chromium, or the one that `TOOLRACK_TEST_CHROMIUM` names.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before } from "node:test";
import { Cable } from "./cable.mjs";

export const ROOT = resolve(import.meta.dirname, "../../../..");
export const BINARY = process.env.TOOLRACK_TEST_BINARY ?? join(ROOT, "target/debug/toolrack");
const PACKAGES = process.env.TOOLRACK_TEST_DASHBOARD ?? join(ROOT, ".cache/dashboard/node_modules");
const CHROMIUM =
  process.env.TOOLRACK_TEST_CHROMIUM ??
  ["chromium", "chromium-browser", "google-chrome"].map((name) => `/usr/bin/${name}`).find(existsSync);

// Packages are not beside this file, where `import` would look for them.
const packages = createRequire(join(PACKAGES, "packages.js"));
const { chromium } = packages("playwright-core");

/** The source of the accessibility checker, which runs in a page. */
export const AXE = packages("axe-core").source;

/** The time-out for a step on a page. In ms. */
export const PATIENCE = 10_000;

const WORKSHOP = join(import.meta.dirname, "workshop.mjs");

/** @param {string} path @param {unknown} content */
function write(path, content) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content, null, 2));
}

/** An entry that runs the workshop. */
export const workshop = (more = {}) => ({ command: process.execPath, args: [WORKSHOP], ...more });

/** A daemon with a home of its own, and everything that is in that home. */
export class Stage {
  /** @param {{empty?: boolean, cable?: boolean}} [options] `empty` configures no server; with `cable`, a test can cut the connections of the page */
  constructor({ empty = false, cable = false } = {}) {
    this.cable = cable ? new Cable() : null;
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), "toolrack-dashboard-")));
    this.home = join(this.folder, "home");
    this.project = join(this.folder, "shop");
    this.config = join(this.folder, "toolrack/mcp.json");
    this.environment = {
      HOME: this.home,
      TOOLRACK_HOME: join(this.folder, "toolrack"),
      PATH: process.env.PATH,
      TMPDIR: this.folder,
      API_KEY: "sesame-open",
    };
    mkdirSync(this.home, { recursive: true });
    mkdirSync(this.project, { recursive: true });
    if (!empty) this.#furnish();
  }

  #furnish() {
    write(this.config, {
      mcpServers: {
        workshop: workshop({ env: { API_KEY: "${API_KEY}", SECRET: "sk-1234567890abcdef" } }),
        broken: { command: "no-such-program" },
        old: { command: "no-such-program", disabled: true },
      },
    });
    write(join(this.project, ".mcp.json"), { mcpServers: { "shop-db": workshop() } });
    write(join(this.home, ".cursor/mcp.json"), { mcpServers: { memory: workshop() } });
  }

  /** Runs `toolrack` with these words. @param {string[]} words */
  run(...words) {
    return execFileSync(BINARY, words, {
      cwd: this.project,
      env: this.environment,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  /** Makes a conversation with one call, by a model that reads its lines from a file. */
  converse() {
    write(join(this.project, "script.json"), [
      { text: "I look.", tool_calls: [{ name: "mcp__workshop__echo", input: { text: "hello" } }] },
      { text: "It said hello." },
    ]);
    this.run("ask", "--model", "mock/script.json", "--allow", "workshop/*", "What does it say?");
  }

  /** Starts the daemon. @param {string[]} words */
  async up(...words) {
    const host = await this.cable?.lay();
    const name = host ? ["--allow-host", host] : [];
    const child = spawn(BINARY, ["up", "--no-open", "--listen", "127.0.0.1:0", ...name, ...words], {
      cwd: this.project,
      env: this.environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    let said = "";
    child.stderr.on("data", (piece) => (said += piece));
    this.address = await new Promise((found, failed) => {
      let out = "";
      child.stdout.on("data", (piece) => {
        out += piece;
        const address = /http:\/\/\S+#token=\w+/.exec(out);
        if (address) found(address[0]);
      });
      child.on("exit", (code) => failed(new Error(`the daemon ended with ${code}: ${said}`)));
      child.on("error", failed);
    });
    this.host = new URL(this.address).host;
    this.cable?.to(this.host);
    this.address = this.address.replace(this.host, host ?? this.host);
    this.origin = new URL(this.address).origin;
    this.token = this.address.split("#token=")[1];
  }

  /** Sends a request to the API, as another program would. @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] */
  async api(path, body, signal) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const response = await fetch(`http://${this.host}${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body && JSON.stringify(body),
      signal,
    });
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : null };
  }

  /** Waits until a server is in a state. @param {string} name @param {string} state @param {string} [world] such as `/agents/ID` */
  async settled(name, state, world = "") {
    for (const end = Date.now() + PATIENCE; ; await new Promise((next) => setTimeout(next, 50))) {
      const { body } = await this.api(`${world}/api/v1/servers/${name}`);
      if (body.state === state) return;
      assert.ok(Date.now() < end, `${name} is ${body.state}, not ${state}: ${body.error}`);
    }
  }

  async down() {
    await this.cable?.take();
    const { child } = this;
    if (child && child.exitCode === null) {
      child.kill("SIGTERM");
      await new Promise((ended) => child.once("exit", ended));
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A browser whose pages fail a test if something unexpected happens on them. */
export class Visitor {
  async start() {
    // The browser's sandbox does not work in containers, and the tests show only our own page.
    this.browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  }

  /**
   * A page that shows the dashboard. Each has a profile of its own.
   * @param {Stage} stage
   * @param {string} [place] such as `#/servers`
   * @param {object} [options] of the browser's context
   */
  async open(stage, place = "#/", options = {}) {
    const context = await this.browser.newContext({
      viewport: { width: 1280, height: 800 },
      reducedMotion: "reduce",
      permissions: ["clipboard-read", "clipboard-write"],
      ...options,
    });
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    /** @type {string[]} */
    page.wrong = [];
    // Violations of the content security policy, exceptions, and requests to other machines.
    page.on("pageerror", (error) => page.wrong.push(`error: ${error.message}`));
    page.on(
      "console",
      (message) =>
        message.type() === "error" &&
        !/status of 4\d\d/.test(message.text()) &&
        page.wrong.push(`console: ${message.text()}`),
    );
    page.on(
      "request",
      (request) =>
        !request.url().startsWith(stage.origin) &&
        !/^(data|blob):/.test(request.url()) &&
        page.wrong.push(`asked elsewhere: ${request.url()}`),
    );
    await page.goto(stage.address);
    await page.getByTestId("connection").and(page.locator('[data-status="live"]')).waitFor();
    if (place !== "#/") await page.goto(`${stage.origin}/${place}`);
    return page;
  }

  async close() {
    await this.browser?.close();
  }
}

/**
 * A stage and a browser for the tests of a file.
 * @param {{empty?: boolean, cable?: boolean, words?: string[], converse?: boolean}} [options]
 */
export function staged({ empty = false, cable = false, words = [], converse = false } = {}) {
  const both = { stage: new Stage({ empty, cable }), visitor: new Visitor() };
  before(async () => {
    await both.visitor.start();
    if (converse) both.stage.converse();
    await both.stage.up(...words);
    if (!empty) await both.stage.settled("workshop", "connected");
  });
  after(async () => {
    await both.visitor.close();
    await both.stage.down();
  });
  return both;
}

/** Fails a test with the unexpected events of its page. @param {any} page */
export async function leave(page) {
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}
