// Small signs: the state of a server, marks of a tool.

import { html } from "../html.js";
import { reasonOf } from "../reason.js";
import { isKnown } from "../world.js";
import { useNow } from "./now.js";
import { spoken } from "./text.js";

/** The word for each state, and its mood. @type {Record<string, [string, "good" | "bad" | "warn" | "busy" | "quiet"]>} */
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
  // The state is the last one that the daemon reported, and may have changed since.
  const isNow = isKnown.value;
  return html`<span
    class=${`pill ${isNow ? mood : "quiet"}`}
    title=${isNow ? undefined : "as it was when the daemon was last heard of"}
    data-testid="state"
    data-status=${state}
    data-known=${isNow}
  >
    <span class="dot" aria-hidden="true"></span>${isNow ? label : `was ${label}`}</span>
  `;
}

/** @param {{mood?: string, children?: unknown, title?: string}} given */
export function Mark({ mood = "quiet", children, title }) {
  return html`<span class=${`mark ${mood}`} title=${title}>${children}</span>`;
}

/** The annotations of a tool: claims of its server. @param {{annotations: Api.Annotations}} given */
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

/** Why a server is in its state, if there is a reason to show. @param {{server: Api.Server}} given */
export function Reason({ server }) {
  const now = useNow(server.state === "reconnecting" && Boolean(server.retry_at) && isKnown.value);
  const reason = reasonOf(server, now);
  return reason && html`<p class=${`reason ${server.state}`} data-testid="reason">${spoken(reason)}</p>`;
}
