// Small signs: the state of a server, marks of a tool.

import { html } from "../html.js";

/** What a state is called, and how it is meant. @type {Record<string, [string, "good" | "bad" | "warn" | "busy" | "quiet"]>} */
const STATES = {
  connected: ["connected", "good"],
  idle: ["idle, starts when called", "quiet"],
  connecting: ["connecting", "busy"],
  reconnecting: ["reconnecting", "busy"],
  pending_trust: ["waits for trust", "warn"],
  needs_auth: ["needs sign-in", "warn"],
  tools_failed: ["tools failed", "bad"],
  failed: ["failed", "bad"],
  broken: ["cannot be used", "bad"],
  disabled: ["disabled", "quiet"],
  disconnected: ["disconnected", "quiet"],
};

/** @param {string} state */
export const stateName = (state) => STATES[state]?.[0] ?? state;

/** @param {{state: string}} given */
export function StatePill({ state }) {
  const [label, mood] = STATES[state] ?? [state, "quiet"];
  return html`<span class=${`pill ${mood}`} data-testid="state" data-status=${state}>
    <span class="dot" aria-hidden="true"></span>${label}</span>
  `;
}

/** @param {{mood?: string, children?: unknown, title?: string}} given */
export function Mark({ mood = "quiet", children, title }) {
  return html`<span class=${`mark ${mood}`} title=${title}>${children}</span>`;
}

/** What a tool says of itself. @param {{annotations: Api.Annotations}} given */
export function ToolMarks({ annotations }) {
  const { read_only: readOnly, destructive, idempotent, open_world: openWorld } = annotations;
  return html`
    <span class="marks">
      ${readOnly === true && html`<${Mark} mood="good" title="says that it changes nothing">read-only<//>`}
      ${readOnly !== true && destructive === true && html`<${Mark} mood="bad" title="says that it may destroy something">destructive<//>`}
      ${idempotent === true && readOnly !== true && html`<${Mark} title="says that a second call changes nothing more">idempotent<//>`}
      ${openWorld === true && html`<${Mark} title="reaches the world outside">open world<//>`}
    </span>
  `;
}

/** Why a server is in its state, in one line; null when there is nothing to say. @param {Api.Server} server */
export function reasonOf(server) {
  const { state, error, how, attempt, attempts, retry_in_ms: wait } = server;
  if (state === "reconnecting") {
    const tries = attempt ? `attempt ${attempt}${attempts ? ` of ${attempts}` : ""}` : "";
    const next = wait ? `next in ${Math.ceil(wait / 1000)} s` : "";
    return [error, [tries, next].filter(Boolean).join(", ")].filter(Boolean).join(" · ");
  }
  if (state === "needs_auth") return how ?? error ?? "sign in to use it";
  if (state === "broken")
    return error ?? "its entry cannot be used as it is written: the problems of the configuration say why";
  if (state === "pending_trust") return "its project's file asks to run it: nothing runs before you agree";
  return error ?? null;
}
