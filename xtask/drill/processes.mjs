// Programs beside the daemon.

import { spawn } from "node:child_process";
import { createServer } from "node:net";

/** The first line of a program. */
export function firstLine(child) {
  return new Promise((found, failed) => {
    let out = "";
    let err = "";
    child.stderr.on("data", (piece) => (err = `${err}${piece}`.slice(-4_000)));
    child.stdout.on("data", (piece) => {
      out += piece;
      if (out.includes("\n")) found(out.split("\n")[0]);
    });
    child.on("exit", (code) => failed(new Error(`it ended with ${code}: ${out} ${err}`)));
  });
}

/** A port that is free now. */
export function freePort() {
  return new Promise((found) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      server.close(() => found(port));
    });
  });
}

const helpers = [];
/** Starts a script, and returns its first line. */
export const helper = (script, ...args) => helperWith({}, script, ...args);
export async function helperWith(variables, script, ...args) {
  const child = spawn(process.execPath, [script, ...args], { env: { ...process.env, ...variables }, stdio: ["pipe", "pipe", "pipe"] });
  helpers.push(child);
  return firstLine(child);
}
export const endHelpers = () => helpers.forEach((child) => child.kill());

/** Reads `stream` until the program prints `word`, and then the rest, so that it never waits for a reader. */
export function untilPrinted(child, stream, word) {
  return new Promise((found, failed) => {
    let output = "";
    stream.on("data", (piece) => {
      output = `${output}${piece}`.slice(-4_000);
      if (output.includes(word)) found(undefined);
    });
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`it ended with ${code}: ${output}`)));
  });
}
