// The caller of a tool.

import { html } from "../html.js";
import { hashOf } from "../router.js";

/** The name of each door. @type {Record<string, string>} */
const DOORS = {
  cli: "a command that was typed",
  daemon: "the control API",
  gateway: "the gateway",
  agent: "a model, in a conversation",
  program: "the program itself",
};

/** @param {{caller: Api.Caller | null | undefined}} given */
export function Caller({ caller }) {
  if (!caller) return html`<p class="quiet-text" data-testid="caller" data-status="unknown">The caller is not known.</p>`;
  const { way, over, client, session, conversation, agent } = caller;
  const door = `${DOORS[way] ?? way}${over ? ` over ${over}` : ""}`;
  return html`
    <p class="caller" data-testid="caller" data-status=${way}>
      <span class="quiet-text">Wanted by</span>
      ${client && html`<strong>${client}</strong> <span class="mark" title="what the client calls itself; any client can say so">its own claim</span>`}
      <span>${client ? `through ${door}` : door}</span>
      ${session && html`<span class="quiet-text">session <code>${session}</code></span>`}
      ${conversation && html`<a href=${hashOf(["sessions", conversation])}>conversation</a>`}
      ${agent && html`<span class="quiet-text">agent <code>${agent}</code></span>`}
    </p>
  `;
}
