// Calls that were begun on the pages of tools. They stand outside of those pages, so that a call goes on while the user looks
// elsewhere in the dashboard, say at a question that it waits for.

import { callTool } from "./api.js";
import { signal } from "./html.js";
import { say } from "./parts/say.js";

/**
 * A call as it goes.
 * @typedef {{state: "running", id: string, progress: Api.Progress | null} | {state: "done", outcome: Api.Outcome} | {state: "failed", error: unknown} | {state: "cancelled"}} Run
 */

/** The last call of each tool, by `server/tool`. */
export const tries = signal(/** @type {ReadonlyMap<string, Run>} */ (new Map()));

/** What ends each call that is under way. @type {Map<string, AbortController>} */
const going = new Map();

/** The pages that are shown now. @type {Set<string>} */
const shown = new Set();

/** @param {string} tool @param {Run | null} run */
function set(tool, run) {
  const next = new Map(tries.peek());
  if (run) next.set(tool, run);
  else next.delete(tool);
  tries.value = next;
}

/** Calls a tool. @param {string} tool as `server/tool` @param {unknown} given */
export async function begin(tool, given) {
  if (going.has(tool)) return;
  const mine = new AbortController();
  const id = crypto.randomUUID();
  going.set(tool, mine);
  addEventListener("beforeunload", warn);
  set(tool, { state: "running", id, progress: null });
  // The user who presses the button has just written the arguments: asking them again would teach them to say yes unread.
  const request = { tool, arguments: given, id, approved: true };
  /** @type {Run} */
  let end;
  try {
    const onProgress = (/** @type {Api.Progress} */ progress) => set(tool, { state: "running", id, progress });
    end = { state: "done", outcome: await callTool(request, onProgress, mine.signal) };
  } catch (error) {
    end = mine.signal.aborted ? { state: "cancelled" } : { state: "failed", error };
  }
  going.delete(tool);
  if (going.size === 0) removeEventListener("beforeunload", warn);
  set(tool, end);
  if (!shown.has(tool)) say(`The call of ${tool} has ended: its page shows how`);
}

/** Gives up the call of a tool. @param {string} tool */
export function cancel(tool) {
  going.get(tool)?.abort();
}

/** The page of a tool is shown, until what this gives back is called. @param {string} tool */
export function show(tool) {
  shown.add(tool);
  return () => {
    shown.delete(tool);
    if (going.has(tool)) say(`The call of ${tool} goes on`);
    // What the user has seen need not be kept.
    else set(tool, null);
  };
}

/** Who closes the page gives up the calls that it waits for: the browser asks before. @param {BeforeUnloadEvent} event */
function warn(event) {
  event.preventDefault();
}
