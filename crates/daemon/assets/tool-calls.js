// Calls that the user made on the pages of tools. They are not part of a component, so that a call goes on while the user looks at
// another part of the dashboard, such as a question that the call waits for.

import { callTool } from "./api.js";
import { signal } from "./html.js";
import { say } from "./parts/say.js";

/**
 * The state of a call.
 * @typedef {{state: "running", id: string, progress: Api.Progress | null} | {state: "done", outcome: Api.Outcome} | {state: "failed", error: unknown} | {state: "cancelled"}} Run
 */

/** The last call of each tool, by `server/tool`. */
export const runs = signal(/** @type {ReadonlyMap<string, Run>} */ (new Map()));

/** Aborts each call that is running. @type {Map<string, AbortController>} */
const running = new Map();

/** The tools whose pages are shown now. @type {Set<string>} */
const shown = new Set();

/** @param {string} tool @param {Run | null} run */
function set(tool, run) {
  const next = new Map(runs.peek());
  if (run) next.set(tool, run);
  else next.delete(tool);
  runs.value = next;
}

/** Calls a tool. @param {string} tool as `server/tool` @param {unknown} given */
export async function begin(tool, given) {
  if (running.has(tool)) return;
  const controller = new AbortController();
  const id = crypto.randomUUID();
  running.set(tool, controller);
  addEventListener("beforeunload", warn);
  set(tool, { state: "running", id, progress: null });
  // The user has just written the arguments. To ask for an approval as well would teach them to approve without reading.
  const request = { tool, arguments: given, id, approved: true };
  /** @type {Run} */
  let end;
  try {
    const onProgress = (/** @type {Api.Progress} */ progress) => set(tool, { state: "running", id, progress });
    end = { state: "done", outcome: await callTool(request, onProgress, controller.signal) };
  } catch (error) {
    end = controller.signal.aborted ? { state: "cancelled" } : { state: "failed", error };
  }
  running.delete(tool);
  if (running.size === 0) removeEventListener("beforeunload", warn);
  set(tool, end);
  if (!shown.has(tool)) say(`The call of ${tool} has ended: its page shows how`);
}

/** Cancels the call of a tool. @param {string} tool */
export function cancel(tool) {
  running.get(tool)?.abort();
}

/** Notes that the page of a tool is shown, until the returned function is called. @param {string} tool */
export function show(tool) {
  shown.add(tool);
  return () => {
    shown.delete(tool);
    if (running.has(tool)) say(`The call of ${tool} goes on`);
    // The user has seen the result.
    else set(tool, null);
  };
}

/** Closing the page cancels its calls, so the browser asks the user first. @param {BeforeUnloadEvent} event */
function warn(event) {
  event.preventDefault();
}
