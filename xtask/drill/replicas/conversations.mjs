// Members who hold conversations. A turn calls a tool; a turn that was interrupted is continued, through whichever replica.

import { found } from "../people.mjs";
import { sleep } from "../settings.mjs";
import { PAUSE, attempt, tally } from "./clients.mjs";
import { Errand, Refused, send } from "./requests.mjs";

/** Holds a conversation until `isOver`. */
export async function converse(who, isOver) {
  const talk = { session: /** @type {string | undefined} */ (undefined), open: /** @type {Errand | undefined} */ (undefined) };
  while (!isOver()) {
    const errand = new Errand(who, "modern", "a turn");
    // A continued turn is about the word of the turn that was interrupted, and makes no call again whose outcome is not known.
    if (talk.open) Object.assign(errand, { id: talk.open.id, kind: "a turn that goes on", mayLackResult: true });
    await attempt(errand, () => turn(talk, errand));
    await sleep(Math.random() * 2 * PAUSE);
  }
}

/** Says something, or has the last turn continued. Returns what the model said. */
async function turn(talk, errand) {
  const { session, open } = talk;
  const body = { text: open ? "" : errand.id, ...(session && { session }) };
  let stream = "";
  const onData = (piece) => {
    stream += piece;
    talk.session = dataOf(stream, "session")?.id ?? talk.session;
    // Only a turn of which something is stored can be continued.
    if (talk.session) talk.open = errand;
  };
  if (session) talk.open = errand;
  const answer = await send(errand, "POST", "/api/v1/turns", body, {}, onData);
  if (open && answer.status === 422 && stream.includes("NOTHING_SAID")) {
    // The message was never stored, or the turn had ended.
    talk.open = undefined;
    return "";
  }
  // The other turn still runs at the home, which has not noticed yet that its client is gone.
  if (open && answer.status === 409 && stream.includes("SESSION_BUSY")) return "";
  if (answer.status === 404) found(`a conversation is gone: ${stream.slice(0, 200)}`);
  if (answer.status !== 200) throw new Refused(answer.status, stream);
  if (dataOf(stream, "done")?.end !== "answered") throw new Error(`the turn did not end well: ${stream.slice(-300)}`);
  talk.open = undefined;
  tally.turns += 1;
  if (open) tally.continued += 1;
  return stream;
}

/** The data of the last event of this name. */
function dataOf(stream, name) {
  const [, data] = [...stream.matchAll(new RegExp(`^event: ?${name}\\ndata: ?(.+)$`, "gm"))].at(-1) ?? [];
  return data && JSON.parse(data);
}
