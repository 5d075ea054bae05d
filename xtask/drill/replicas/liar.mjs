// A sibling that lies: a daemon with another key at the address of a replica that was killed. It has a copy of the database, the files of
// the team and its secret key, and so knows everything but the private key of the replica. It carries out what the siblings send it, and
// forwards to them what they did not get from a member.

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";

import { canary, found, people } from "../people.mjs";
import { freePort } from "../processes.mjs";
import { folder, sleep } from "../settings.mjs";
import { asksAt } from "../wire.mjs";
import { EXECUTED, Sibling, homesAt, writeTeam } from "./siblings.mjs";

const HOME = join(folder, "liar");
const EXECUTED_BY_LIAR = join(folder, "executed-by-liar");
/** How long it stays, in milliseconds: until its siblings have removed the replica that was killed, and longer. */
const STAYS = 7_000;
/** A liar that removes no silent sibling, so that it forwards requests for as long as it is there. */
const PATIENT = '[replicas]\nheartbeat_timeout = "60s"\ntakeover_timeout = "2s"\n';

/** The words of the calls that the liar has forwarded. */
const forged = /** @type {string[]} */ ([]);

export const lies = { told: 0, believed: 0 };

/** Kills a replica, and has a liar in its place for some seconds. */
export async function lie(sibling, siblings, database) {
  mkdirSync(HOME, { recursive: true });
  const origin = `http://127.0.0.1:${await freePort()}`;
  const copy = await database.cluster.copy("liar");
  const teamFile = await writeTeam(HOME, origin, copy, EXECUTED_BY_LIAR, PATIENT);
  const liar = new Sibling("liar", Number(new URL(origin).port), Number(sibling.siblingAddress.split(":")[1]), teamFile);
  const others = siblings.filter(({ number }) => number !== sibling.number);
  const homes = (await Promise.all(others.map(({ number }) => homesAt(number, database)))).flat();
  const killed = await sibling.kill();
  await liar.start();
  const end = performance.now() + STAYS;
  const elsewhere = people.filter(({ number, tenant }) => number === 0 && homes.includes(tenant));
  await Promise.all([
    ...elsewhere.map((who) => forge(who, liar)),
    ...others.map((other) => knock(other)),
    sleep(end - performance.now()),
  ]);
  await liar.kill();
  await database.cluster.drop("liar");
  return { ...killed, how: "liar" };
}

/** Has the liar forward a call to the home of a tenant. */
async function forge(who, liar) {
  const text = canary("arg", who);
  forged.push(text);
  lies.told += 1;
  const body = { tool: "shared/echo", arguments: { text } };
  const answer = await asksAt(liar.address, who, "POST", "/api/v1/calls", body).catch(() => undefined);
  if (answer?.status === 200) found(`a replica has carried out what a liar forwarded: ${answer.text.slice(0, 200)}`);
}

/** Sends a request to the address for siblings, as a program does that knows nothing of them. */
function knock({ siblingAddress }) {
  const [host, port] = siblingAddress.split(":");
  const request = `POST /api/v1/calls HTTP/1.1\r\nHost: ${siblingAddress}\r\nX-Forwarded-For: 127.0.0.1\r\nContent-Length: 0\r\n\r\n`;
  lies.told += 1;
  return new Promise((over) => {
    let answer = "";
    const socket = connect({ host, port: Number(port), timeout: 10_000 }, () => socket.write(request));
    socket.on("data", (piece) => (answer += piece.toString("latin1")));
    socket.on("error", () => undefined);
    socket.on("timeout", () => socket.destroy());
    socket.on("close", () => {
      if (answer.includes("HTTP/")) lies.believed += 1;
      over(undefined);
    });
  });
}

/** How many calls the liar has carried out for its siblings, or they for it. */
export function countBelieved() {
  const lines = (file) => (existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : []);
  const executed = new Set(lines(EXECUTED));
  const byLiar = lines(EXECUTED_BY_LIAR);
  for (const text of byLiar.slice(0, 5)) found(`a liar got the call ${text}`);
  return lies.believed + byLiar.length + forged.filter((text) => executed.has(text)).length;
}
