// The members of a tenant, for its administrators, who change their roles, revoke what lets them in, and remove them.

import { call, get } from "../api.js";
import { counted } from "../format.js";
import { html, useState } from "../html.js";
import { ClientList, TokenList, When } from "../parts/access.js";
import { Confirm } from "../parts/dialog.js";
import { onText } from "../parts/input.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { say } from "../parts/say.js";
import { Empty, Waiting } from "../parts/text.js";

/** The roles, with what each may do. @type {[string, string][]} */
const ROLES = [
  ["viewer", "looks at servers and tools"],
  ["user", "calls tools"],
  ["operator", "looks after servers, and answers every question"],
  ["auditor", "reads the audit log"],
  ["admin", "all of this, and people"],
  ["scraper", "reads metrics"],
];

/** @param {string} id */
const placeOf = (id) => `/api/v1/members/${encodeURIComponent(id)}`;

export function People() {
  const loaded = useLoaded((signal) => get("/api/v1/members", signal), []);
  const members = /** @type {Api.Member[] | null} */ (loaded.data?.members ?? null);
  return html`
    <${Head}
      title="People"
      help="people"
      about=${members && `${counted(members.length, "member")} of your tenant, people and services.`}
    />
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!members && !loaded.error && html`<${Waiting} />`}
    ${
      members?.length === 0 &&
      html`<${Empty} title="No members yet" testid="no-members"><p>People appear here when they have signed in once.</p><//>`
    }
    ${members?.map((member) => html`<${Member} key=${member.id} member=${member} changed=${loaded.again} />`)}
  `;
}

/** @param {Api.Member} member */
const facts = ({ groups, tokens, sessions, clients }) =>
  [
    groups.length > 0 && `in ${groups.join(", ")}`,
    tokens > 0 && counted(tokens, "token"),
    sessions > 0 && counted(sessions, "browser"),
    clients > 0 && counted(clients, "client"),
  ].filter(Boolean);

/** @param {{member: Api.Member, changed: () => void}} given */
function Member({ member, changed }) {
  const { id, name, kind, role, issuer, subject, you, active_at: active } = member;
  const [open, setOpen] = useState(false);
  const [asking, setAsking] = useState(false);
  const change = useAction(async (/** @type {string} */ wanted) => {
    try {
      await call(placeOf(id), { method: "PUT", body: { role: wanted } });
      say(`${name} is now ${wanted}`);
    } finally {
      // What was refused is shown as it is.
      changed();
    }
  });
  const remove = async () => {
    await call(placeOf(id), { method: "DELETE" });
    say(`Removed ${name}`);
    changed();
  };
  return html`
    <article class="panel" data-testid="member" data-name=${subject} data-status=${role}>
      <header class="question-head">
        <h2>${name}</h2>
        ${kind === "service" && html`<span class="mark">service</span>`}
        ${you && html`<span class="mark">you</span>`}
      </header>
      <p class="quiet-text">
        <code>${subject}</code> of <code>${issuer}</code>
        ${facts(member).map((fact) => html` · ${fact}`)}
        ${active && html` · active <${When} at=${active} />`}
      </p>
      <label class="field">
        <span class="label">Role<span class="hidden"> of ${name}</span></span>
        <select
          value=${role}
          disabled=${change.busy}
          onChange=${onText((/** @type {string} */ wanted) => change.run(wanted))}
          data-testid="role"
        >
          ${ROLES.map(([word, may]) => html`<option value=${word}>${word}: ${may}</option>`)}
        </select>
      </label>
      <${Trouble} error=${change.error} />
      <p class="actions">
        <button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)} data-testid="show-access">
          Tokens and clients<span class="hidden"> of ${name}</span>
        </button>
        <button type="button" class="danger" onClick=${() => setAsking(true)} data-testid="remove-member">
          Remove<span class="hidden"> ${name}</span>
        </button>
      </p>
      ${
        open &&
        html`<div data-testid="member-access">
          <h3>Tokens and browsers</h3>
          <${TokenList} place=${`${placeOf(id)}/tokens`} onRevoked=${changed} />
          <h3>Clients</h3>
          <${ClientList} place=${`${placeOf(id)}/clients`} onRevoked=${changed} />
        </div>`
      }
      ${
        asking &&
        html`<${Confirm} title=${`Remove ${name}?`} action="Remove" danger=${true} onClose=${() => setAsking(false)} doIt=${remove}>
          <p>Their sessions, tokens and clients end at once.</p>
          ${issuer !== "toolrack" && html`<p>They can sign in again as long as their provider says that they belong to your tenant.</p>`}
        <//>`
      }
    </article>
  `;
}
