// A team with two tenants behind its front door: a daemon, a certified OpenID provider that signs its people in, and browsers.
//
// The packages of the provider are in `TOOLRACK_TEST_PROVIDER`, or in `.cache/`.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before } from "node:test";
import { Cable } from "./cable.mjs";
import { BINARY, PATIENCE, ROOT, Visitor, workshop } from "./stage.mjs";

const PROVIDER = process.env.TOOLRACK_TEST_PROVIDER ?? join(ROOT, ".cache/provider/node_modules");

/** The client by which the provider knows the daemon. */
const SECRET = "s3cret/of the+client";

/** The first line that a process prints. @param {import("node:child_process").ChildProcess} child @param {string} what @returns {Promise<string>} */
function firstLine(child, what) {
  return new Promise((found, failed) => {
    let [out, err] = ["", ""];
    child.stderr?.on("data", (piece) => (err += piece));
    child.stdout?.on("data", (piece) => {
      out += piece;
      if (out.includes("\n")) found(out.split("\n")[0]);
    });
    child.on("exit", (code) => failed(new Error(`${what} ended with ${code}: ${out} ${err}`)));
    child.on("error", failed);
  });
}

export class Team {
  cable = new Cable();
  folder = realpathSync(mkdtempSync(join(tmpdir(), "toolrack-team-")));
  environment = {
    HOME: join(this.folder, "home"),
    TOOLRACK_HOME: join(this.folder, "toolrack"),
    PATH: process.env.PATH,
    TMPDIR: this.folder,
    CLIENT_SECRET: SECRET,
  };

  /** Starts all of it. @param {string} [more] of the team file @param {string} [limits] of the tenant `acme` */
  async up(more = "", limits = "") {
    const host = await this.cable.lay();
    this.origin = `http://${host}`;
    this.provider = spawn(
      process.execPath,
      [resolve(PROVIDER, "../provider.mjs"), SECRET, `${this.origin}/sign-in/back`],
      { stdio: ["pipe", "pipe", "pipe"] },
    );
    this.issuer = await firstLine(this.provider, "the provider");
    mkdirSync(this.environment.HOME, { recursive: true });
    for (const tenant of ["acme", "bolt"]) {
      const home = join(this.folder, "tenants", tenant);
      mkdirSync(home, { recursive: true });
      writeFileSync(join(home, "toolrack.toml"), `[[profiles]]\nname = "few"\ntools = "${tenant}-shop/echo"\n`);
      writeFileSync(join(home, "mcp.json"), JSON.stringify({ mcpServers: { [`${tenant}-shop`]: workshop() } }));
    }
    writeFileSync(join(this.folder, "team.toml"), this.#file(more, limits));
    const words = ["--team", join(this.folder, "team.toml"), "--allow", "*", ...["--listen", "127.0.0.1:0"]];
    this.child = spawn(BINARY, ["serve", "--no-open", "--json", "--with-parent", ...words], {
      cwd: this.folder,
      env: this.environment,
      stdio: ["pipe", "pipe", "pipe"],
    });
    const up = JSON.parse(await firstLine(this.child, "the daemon"));
    this.token = up.token;
    this.cable.to(up.address);
  }

  /** @param {string} more @param {string} limits */
  #file(more, limits) {
    return `
      url = "${this.origin}"
      ${more}
      [sign_in]
      issuer = "${this.issuer}"
      client_id = "toolrack"
      client_secret = "\${CLIENT_SECRET}"
      [[tenants]]
      id = "acme"
      members = ["*@acme.example"]
      roles = { operator = ["olga@acme.example"], admin = ["ada@acme.example"] }
      own_servers = { most = 2, allow = ["127.0.0.1"] }
      limits = { ${limits} }
      [[tenants]]
      id = "bolt"
      members = ["*@bolt.example"]
    `;
  }

  /** Runs `toolrack` with these words, on the machine of the daemon. @param {string[]} words */
  run(...words) {
    const options = { cwd: this.folder, env: this.environment, encoding: /** @type {const} */ ("utf8") };
    return execFileSync(BINARY, words, options);
  }

  /** Makes a personal token of a member. @param {string} name @param {string} tenant @param {string[]} more words @returns {string} */
  tokenOf(name, tenant, ...more) {
    return JSON.parse(this.run("team", "token", name, "--tenant", tenant, "--json", ...more)).token;
  }

  /** Returns a new profile of a browser, without a sign-in. @param {import("./stage.mjs").Visitor} visitor */
  async browser(visitor) {
    const context = await visitor.browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" });
    context.setDefaultTimeout(PATIENCE);
    return context;
  }

  /**
   * Fills in the forms of the provider that a page shows, until it leaves them.
   * @param {any} page
   * @param {string} address of the person
   */
  async atProvider(page, address) {
    await page.waitForURL((/** @type {URL} */ url) => url.origin === this.issuer);
    await page.locator('input[name="login"]').fill(address);
    await page.locator('input[name="password"]').fill("any");
    await page.locator('button[type="submit"]').click();
    const consent = page.getByRole("button", { name: "Continue" });
    await consent.waitFor();
    await consent.click();
    await page.waitForURL((/** @type {URL} */ url) => url.origin !== this.issuer);
  }

  /**
   * Opens the dashboard as a person who signs in.
   * @param {import("./stage.mjs").Visitor} visitor
   * @param {string} address
   */
  async signedIn(visitor, address, place = "#/") {
    const page = await (await this.browser(visitor)).newPage();
    await page.goto(`${this.origin}/${place}`);
    await page.getByTestId("sign-in-link").click();
    await this.atProvider(page, address);
    await page.getByTestId("account").waitFor();
    return page;
  }

  async down() {
    await this.cable.take();
    for (const child of [this.child, this.provider]) {
      if (!child || child.exitCode !== null) continue;
      child.kill("SIGTERM");
      await new Promise((ended) => child.once("exit", ended));
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/**
 * A team for the tests of a file, and a browser if they need one.
 * @param {object} [options]
 * @param {boolean} [options.browser]
 * @param {string} [options.limits] of the tenant `acme`
 * @param {() => Promise<string>} [options.more] of the team file
 * @param {(team: Team) => Promise<void>} [options.begin] when all is up, before the first test
 * @param {(team: Team) => Promise<void>} [options.end] after the last test, when all is still up
 */
export function withTeam({ browser = false, limits = "", more = async () => "", begin = async () => {}, end = async () => {} } = {}) {
  const [team, visitor] = [new Team(), new Visitor()];
  before(async () => {
    if (browser) await visitor.start();
    await team.up(await more(), limits);
    await begin(team);
  });
  after(async () => {
    await end(team);
    await visitor.close();
    await team.down();
  });
  return { team, visitor };
}

/** Returns the rows of a tenant's audit log, or of the daemon's own. @param {Team} team @param {string} [tenant] */
export function audit(team, tenant) {
  const home = tenant === undefined ? team.environment.TOOLRACK_HOME : join(team.folder, "tenants", tenant);
  const options = { env: { ...team.environment, TOOLRACK_HOME: home }, encoding: /** @type {const} */ ("utf8") };
  const out = execFileSync(BINARY, ["audit", "list", "--json", "--limit", "500"], options);
  const { rows } = JSON.parse(out);
  assert.ok(Array.isArray(rows));
  return rows;
}
