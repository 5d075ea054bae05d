// One stream of events for all pages of a browser. A browser opens at most six connections to a daemon, for all of its pages
// together: with a stream in each of six pages, none would be left for requests.
//
// The page that holds a lock listens, and sends the events to the other pages of this address. When it is closed, another page gets
// the lock. Tokens are never sent: each page has its own.

import { pathOf } from "./agent.js";
import { Refusal } from "./api.js";
import { listen, pause } from "./events.js";
import { LOG_LENGTH } from "./merge.js";
import { isForbidden } from "./slots.js";

/** @typedef {import("./events.js").State} State */

/**
 * The state of the stream of the page that listens.
 * @typedef {{state: State, tries: number, refusal: {status: number, code: string, message: string, hint: string | null} | null}} StreamStatus
 */

/**
 * A message between pages. `hello` asks the page that listens for all events since a certain one, and it answers with `past`; `here`
 * announces the state of its stream; `wake` asks it to reconnect at once.
 * @typedef {({kind: "hello", last: string | null} | {kind: "past", to: string, events: Api.LiveEvent[], how: StreamStatus} | {kind: "here", how: StreamStatus} | {kind: "event", event: Api.LiveEvent} | {kind: "wake"}) & {from: string}} PageMessage
 */

/** Whether the pages of this browser can share a stream: only pages from this machine or over https can. */
const canAgree = () => Boolean(globalThis.navigator?.locks && globalThis.BroadcastChannel);

/**
 * Listens until the signal is aborted, together with the other pages of this browser.
 * @param {import("./events.js").Listener} listener
 * @param {AbortSignal} signal
 */
export function listenTogether(listener, signal) {
  if (canAgree()) new Page(listener, signal).start();
  else listen(listener, signal);
}

/** This page, as one of those that share a stream. */
class Page {
  #pageId = crypto.randomUUID();
  #name = `toolrack.events ${pathOf("/api/v1/events")}`;
  #channel = new BroadcastChannel(this.#name);
  /** @type {Api.LiveEvent[]} */
  #events = [];
  /** @type {StreamStatus} */
  #status = { state: "connecting", tries: 0, refusal: null };
  #isLeading = false;
  /** The page that listens, once it has sent the earlier events. @type {string | null} */
  #leader = null;
  #timer = 0;

  /** @param {import("./events.js").Listener} listener @param {AbortSignal} signal */
  constructor(listener, signal) {
    this.listener = listener;
    this.signal = signal;
  }

  start() {
    const { signal } = this;
    this.#channel.addEventListener("message", ({ data }) => this.#receive(data), { signal });
    signal.addEventListener("abort", () => {
      clearTimeout(this.#timer);
      this.#channel.close();
    });
    this.listener.onState("connecting", null);
    this.#send({ kind: "hello", last: null });
    const wake = () => this.#isLeading || this.#status.state === "live" || this.#send({ kind: "wake" });
    addEventListener("focus", wake, { signal });
    navigator.locks.request(this.#name, { signal }, () => this.#lead()).catch((error) => {
      if (isForbidden(error)) listen(this.listener, signal);
    });
  }

  /** @param {import("./shared.js").PageMessage extends infer S ? S extends {from: string} ? Omit<S, "from"> : never : never} message */
  #send(message) {
    if (!this.signal.aborted) this.#channel.postMessage({ ...message, from: this.#pageId });
  }

  /** Listens until this page is closed or the daemon refuses its token. */
  async #lead() {
    if (this.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#isLeading = true;
    const last = this.#events.at(-1)?.id ?? "0";
    const onEvent = (/** @type {Api.LiveEvent} */ event) => {
      this.#take(event);
      this.#send({ kind: "event", event });
    };
    /** @type {import("./events.js").Listener["onState"]} */
    const onState = (state, refusal) => {
      const tries = state === "live" || state === "connecting" ? 0 : this.#status.tries + 1;
      const why = refusal && { status: refusal.status, code: refusal.code, message: refusal.message, hint: refusal.hint };
      this.#status = { state, tries, refusal: why };
      this.listener.onState(state, refusal);
      this.#send({ kind: "here", how: this.#status });
    };
    try {
      await listen({ onEvent, onState }, this.signal, { last, isOnlyOne: true });
    } finally {
      this.#isLeading = false;
    }
  }

  /** @param {Api.LiveEvent} event */
  #take(event) {
    this.#events.push(event);
    if (this.#events.length > LOG_LENGTH) this.#events.shift();
    this.listener.onEvent(event);
  }

  /** @param {PageMessage} message */
  #receive(message) {
    if (this.#isLeading) {
      if (message.kind === "hello") this.#tellPast(message);
      // This page may be in a pause between two attempts: it ends the pause.
      if (message.kind === "wake") dispatchEvent(new Event("toolrack-wake"));
      return;
    }
    if (message.kind === "past" && message.to === this.#pageId) {
      this.#leader = message.from;
      for (const event of message.events) this.#take(event);
      this.#follow(message.how);
    }
    if (message.kind === "event" && message.from === this.#leader) this.#take(message.event);
    if (message.kind !== "here") return;
    if (message.from === this.#leader) this.#follow(message.how);
    // A new page listens, which may have seen more events.
    else this.#send({ kind: "hello", last: this.#events.at(-1)?.id ?? null });
  }

  /** @param {Extract<PageMessage, {kind: "hello"}>} message */
  #tellPast({ from, last }) {
    const seen = last === null ? -1 : this.#events.findLastIndex(({ id }) => id === last);
    this.#send({ kind: "past", to: from, events: this.#events.slice(seen + 1), how: this.#status });
  }

  /** @param {StreamStatus} how */
  #follow(how) {
    this.#status = how;
    const { refusal } = how;
    this.listener.onState(how.state, refusal && new Refusal(refusal.status, refusal));
    clearTimeout(this.#timer);
    // Browsers slow the timers of hidden pages down, so a visible page measures the pause for the one that listens.
    if (how.state === "lost" && !document.hidden)
      this.#timer = setTimeout(() => this.#send({ kind: "wake" }), pause(how.tries));
  }
}
