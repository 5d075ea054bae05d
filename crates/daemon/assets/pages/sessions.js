// The stored conversations.

import { get } from "../api.js";
import { ago, counted, moment } from "../format.js";
import { html } from "../html.js";
import { isMember, may } from "../me.js";
import { useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { Search } from "../parts/search.js";
import { Empty, Waiting } from "../parts/text.js";
import { hashOf } from "../router.js";

/** Conversations on one page. */
const SHOWN = 50;

/** @param {{query: Record<string, string>}} given */
export function Sessions({ query }) {
  const { q = "", after = "", of = "" } = query;
  const search = new URLSearchParams({ limit: String(SHOWN), ...(q && { q }), ...(after && { after }), ...(of && { of }) });
  const loaded = useLoaded((signal) => get(`/api/v1/sessions?${search}`, signal), [q, after, of]);
  const found = /** @type {{sessions: Api.Session[], total: number} | null} */ (loaded.data);
  return html`
    <${Head} title="Sessions" help="sessions" about=${found && found.total > 0 ? counted(found.total, "conversation") : null} />
    ${isMember() && may("administer") && html`<${Whose} of=${of} />`}
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!found && !loaded.error && html`<${Waiting} />`}
    ${
      found?.total === 0 &&
      html`<${Empty} title="No conversations yet">
        <p><a href="#/chat">Start one here</a>, or in a terminal: <code>toolrack ask "What is in this folder?"</code> or <code>toolrack chat</code>.</p><//>
      `
    }
    ${found && found.total > 0 && html`<div class="toolbar" role="search"><${Search} label="Search conversations" placeholder="Words in them" /></div>`}
    ${found && found.total > 0 && found.sessions.length === 0 && html`<p class="quiet-text">Nothing found.</p>`}
    ${
      found &&
      found.sessions.length > 0 &&
      html`<ul class="rows sessions panel" data-testid="sessions">
        ${found.sessions.map((session) => html`<${Row} key=${session.id} session=${session} names=${of === "all"} />`)}
      </ul>`
    }
    ${found && html`<${Pages} kept=${{ ...(q && { q }), ...(of && { of }) }} after=${after} shown=${found.sessions} />`}
  `;
}

/** Whose conversations an administrator sees. @param {{of: string}} given */
function Whose({ of }) {
  return html`
    <nav class="actions" aria-label="Whose conversations">
      <a class="button" href=${hashOf(["sessions"])} aria-current=${of === "" ? "page" : null}>My own</a>
      <a class="button" href=${hashOf(["sessions"], { of: "all" })} aria-current=${of === "all" ? "page" : null} data-testid="all-members">All members</a>
    </nav>
    ${of === "all" && html`<p class="quiet-text">The audit log records each conversation of another member that you read or delete.</p>`}
  `;
}

/** @param {{session: Api.Session, names: boolean}} given `names` says that the owner is shown */
function Row({ session, names }) {
  const { id, prefix, title, model, agent, owner, messages, updated_at: updated, open_turn: open } = session;
  return html`
    <li data-testid="session" data-id=${id}>
      <div>
        <p>
          <a href=${hashOf(["sessions", id])}>${title || "Without a title"}</a>${" "}
          ${open && html`<span class="mark warn">not finished</span>`}
        </p>
        <p class="quiet-text">
          <code>${prefix}</code> ${[names && (owner?.name ?? "the operator"), agent, model, counted(messages, "message")].filter(Boolean).join(" · ")}
        </p>
      </div>
      <time class="quiet-text" datetime=${updated} title=${moment(updated)}>${ago(updated)}</time>
    </li>
  `;
}

/** @param {{kept: Record<string, string>, after: string, shown: Api.Session[]}} given */
function Pages({ kept, after, shown }) {
  const isFull = shown.length === SHOWN;
  if (!after && !isFull) return null;
  return html`
    <nav class="actions" aria-label="Pages">
      ${after && html`<a class="button" href=${hashOf(["sessions"], kept)}>The newest</a>`}
      ${isFull && html`<a class="button" href=${hashOf(["sessions"], { ...kept, after: shown[SHOWN - 1].id })}>Older</a>`}
    </nav>
  `;
}
