// A proxy between a page and its daemon, whose connections a test can cut.

import { connect, createServer } from "node:net";

export class Cable {
  #target = 0;
  #isCut = false;
  /** @type {Set<import("node:net").Socket>} */
  #sockets = new Set();

  /** Starts it. @returns {Promise<string>} the host that the page calls */
  async lay() {
    this.server = createServer((near) => {
      if (this.#isCut) return near.destroy();
      const far = connect(this.#target, "127.0.0.1");
      for (const [one, other] of [
        [near, far],
        [far, near],
      ]) {
        this.#sockets.add(one);
        one.pipe(other);
        one.on("error", () => other.destroy());
        one.on("close", () => {
          this.#sockets.delete(one);
          other.destroy();
        });
      }
    });
    await new Promise((laid) => this.server.listen(0, "127.0.0.1", laid));
    return `127.0.0.1:${this.server.address().port}`;
  }

  /** @param {string} host where the daemon is */
  to(host) {
    this.#target = Number(host.split(":")[1]);
  }

  cut() {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend() {
    this.#isCut = false;
  }

  async take() {
    this.cut();
    await new Promise((gone) => this.server.close(gone));
  }
}
