// The page below a path of nginx with its default settings.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { leave, Stage, Visitor } from "../stage.mjs";

const NGINX = existsSync("/usr/sbin/nginx") ? "/usr/sbin/nginx" : "nginx";
const stage = new Stage();
const visitor = new Visitor();
/** @type {import("node:child_process").ChildProcess} */
let nginx;
let below = "";

/** A port that was free a moment ago. @returns {Promise<number>} */
const free = () =>
  new Promise((found) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      server.close(() => found(port));
    });
  });

before(async () => {
  await visitor.start();
  const port = await free();
  await stage.up("--allow-host", `127.0.0.1:${port}`);
  await stage.settled("workshop", "connected");
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${name};`);
  const config = `daemon off; master_process off; pid nginx.pid; error_log stderr; events {}
    http { access_log off; ${folders.join(" ")}
      server { listen 127.0.0.1:${port}; location /tools/rack/ { proxy_pass http://${stage.host}/; } } }`;
  writeFileSync(join(stage.folder, "nginx.conf"), config);
  nginx = spawn(NGINX, ["-p", stage.folder, "-c", join(stage.folder, "nginx.conf")], { stdio: "ignore" });
  below = `http://127.0.0.1:${port}/tools/rack/`;
  for (let tries = 0; !(await fetch(`${below}health`).catch(() => null))?.ok; tries += 1) {
    assert.ok(tries < 200, "nginx does not answer");
    await new Promise((next) => setTimeout(next, 50));
  }
});

after(async () => {
  nginx?.kill();
  await visitor.close();
  await stage.down();
});

test("the_page_is_live_and_asks_for_nothing_outside_of_its_path", async () => {
  const address = `${below}#token=${stage.token}`;
  const page = await visitor.open({ ...stage, address, origin: below.slice(0, -1) });
  await page.goto(`${below}#/tools/workshop/slow`);
  await page.getByTestId("call").click();
  await page.getByTestId("progress").getByText(/^step [2-9]/).waitFor();
  await page.getByTestId("result").getByText("done").waitFor();
  const call = stage.api("/api/v1/calls", { tool: "workshop/erase", arguments: { path: "a.txt" } });
  await page.getByTestId("nav-count-approvals").click();
  await page.getByTestId("once").click();
  assert.equal((await call).status, 200);
  assert.equal(new URL(page.url()).pathname, "/tools/rack/");
  await leave(page);
});
