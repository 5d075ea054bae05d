// The network of the replicas: proxies through which they reach the database and each other, and which the drill delays and cuts.

import { connect, createServer } from "node:net";

import { sleep } from "../settings.mjs";

/** A proxy. While it is cut, no byte passes and no connection is lost, as when a network drops all packets for a while. */
export class Link {
  /** How long it holds back each piece, in milliseconds. */
  delay = 0;
  #whole = Promise.resolve();
  #mend = () => undefined;
  /** Texts that it replaces on the way back by others of the same length. */
  #replaced = /** @type {[string, string][]} */ ([]);

  /** Listens; `target` says where to connect. */
  async listen(target) {
    this.target = target;
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => void this.#connect(socket)).unref();
    await new Promise((listens) => server.listen(0, "127.0.0.1", () => listens(undefined)));
    this.port = /** @type {import("node:net").AddressInfo} */ (server.address()).port;
    return this;
  }

  replace(text, by) {
    if (text.length !== by.length) throw new Error(`${text} and ${by} are not of the same length`);
    this.#replaced.push([text, by]);
  }

  cut() {
    this.#whole = new Promise((whole) => (this.#mend = () => whole(undefined)));
  }

  mend() {
    this.#mend();
  }

  async #connect(socket) {
    socket.on("error", () => undefined);
    await this.#whole;
    if (socket.destroyed) return;
    const other = connect({ ...this.target(), allowHalfOpen: true, noDelay: true });
    other.on("error", () => undefined);
    void this.#pass(socket, other, []);
    void this.#pass(other, socket, this.#replaced);
  }

  /** Passes on what one side sends, and that it ends. */
  async #pass(from, to, replaced) {
    try {
      for await (const piece of from) {
        if (this.delay > 0) await sleep(this.delay);
        await this.#whole;
        if (!to.write(replacing(piece, replaced))) await drained(to);
      }
      await this.#whole;
      to.end();
    } catch {
      await this.#whole;
      to.destroy();
    }
  }
}

function drained(to) {
  if (to.destroyed) throw new Error("the other side is gone");
  return new Promise((over) => ["drain", "close"].forEach((event) => to.once(event, () => over(undefined))));
}

function replacing(piece, replaced) {
  let text = piece.toString("latin1");
  for (const [one, other] of replaced) text = text.replaceAll(one, other);
  return Buffer.from(text, "latin1");
}

/** The links of replicas: one from each to the database, and one from each to each other. What comes back from the database shows a
 *  replica, in place of the address of a sibling, that of its link to the sibling. */
export async function makeLinks(siblings, target) {
  const all = /** @type {{from: number, to: number | undefined, link: Link}[]} */ ([]);
  for (const { number: from } of siblings) {
    const database = await new Link().listen(target);
    all.push({ from, to: undefined, link: database });
    for (const { number: to, siblingAddress } of siblings.filter(({ number }) => number !== from)) {
      const link = await new Link().listen(() => ({ host: "127.0.0.1", port: Number(siblingAddress.split(":")[1]) }));
      database.replace(siblingAddress, `127.0.0.1:${link.port}`);
      all.push({ from, to, link });
    }
  }
  const those = (isOne) => all.filter(isOne).map(({ link }) => link);
  const portOf = (replica) => all.find(({ from, to }) => from === replica && to === undefined)?.link.port;
  return {
    /** The port at which a replica finds the database. */
    portOf,
    /** The links to the database: of one replica, or of all. */
    toDatabase: (replica = undefined) => those(({ from, to }) => to === undefined && (replica === undefined || from === replica)),
    /** All links between a replica and its siblings. */
    around: (replica) => those(({ from, to }) => to !== undefined && (from === replica || to === replica)),
  };
}
