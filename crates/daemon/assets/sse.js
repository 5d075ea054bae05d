// Reads event streams from `fetch`, because `EventSource` cannot send the header with the token.

/**
 * @typedef {object} StreamEvent
 * @property {string} event its name; `message` when the stream gives none
 * @property {string} data
 * @property {string | null} id the last id that the stream gave, which may be of an earlier event
 */

/** The longest line. A longer one cannot be the daemon's, and the stream is closed. In characters. */
const LONGEST_LINE = 16 * 1024 * 1024;

/** Splits text, which arrives in pieces, into events (WHATWG HTML, 9.2.6). */
export class EventCutter {
  #rest = "";
  #name = "";
  /** @type {string[]} */
  #data = [];
  /** @type {string | null} */
  #id = null;

  /**
   * @param {string} piece
   * @returns {StreamEvent[]} the events that the piece completes
   */
  push(piece) {
    const text = this.#rest + piece;
    // A carriage return at the end may be the first half of a line break.
    const whole = text.endsWith("\r") ? text.length - 1 : text.length;
    const lines = text.slice(0, whole).split(/\r\n|\r|\n/);
    this.#rest = (lines.pop() ?? "") + text.slice(whole);
    if (this.#rest.length > LONGEST_LINE) throw new Error("the daemon sent a line without an end");
    return lines.map((line) => this.#take(line)).filter((event) => event !== null);
  }

  /**
   * @param {string} line
   * @returns {StreamEvent | null}
   */
  #take(line) {
    if (line === "") return this.#done();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    if (field === "event") this.#name = value;
    if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }

  #done() {
    const event = { event: this.#name || "message", data: this.#data.join("\n"), id: this.#id };
    const isEvent = this.#data.length > 0;
    this.#name = "";
    this.#data = [];
    return isEvent ? event : null;
  }
}

/**
 * Yields the events of an answer until it ends.
 * @param {Response} response
 * @returns {AsyncGenerator<StreamEvent>}
 */
export async function* eventsOf(response) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const cutter = new EventCutter();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* cutter.push(value);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
