// The tokens, browsers and clients with which a member uses a team. The page never shows the tokens themselves.

import { call, get } from "../api.js";
import { ago, day, moment } from "../format.js";
import { html, useState } from "../html.js";
import { Confirm } from "./dialog.js";
import { useLoaded } from "./loaded.js";
import { Trouble } from "./problem.js";
import { say } from "./say.js";
import { Waiting } from "./text.js";

/** A time, with the moment in full. @param {{at: string, shown?: (at: string) => string}} given */
export function When({ at, shown = ago }) {
  return html`<time datetime=${at} title=${moment(at)}>${shown(at)}</time>`;
}

/**
 * Tokens and the browsers of a member.
 * @param {{place: string, because?: unknown, onRevoked?: () => void}} given
 *   `place` is their address; they are fetched anew when `because` changes
 */
export function TokenList({ place, because = null, onRevoked = () => {} }) {
  const loaded = useLoaded((signal) => get(place, signal), [place, because]);
  const tokens = /** @type {Api.MemberToken[] | null} */ (loaded.data?.tokens ?? null);
  const revoked = () => {
    loaded.again();
    onRevoked();
  };
  return html`
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!tokens && !loaded.error && html`<${Waiting} />`}
    ${tokens?.length === 0 && html`<p class="quiet-text" data-testid="no-tokens">No tokens, and no browser in which you are signed in.</p>`}
    ${
      tokens &&
      tokens.length > 0 &&
      html`<ul class="rows" data-testid="tokens">
        ${tokens.map((token) => html`<${TokenRow} key=${token.id} token=${token} place=${place} revoked=${revoked} />`)}
      </ul>`
    }
  `;
}

/** @param {{token: Api.MemberToken, place: string, revoked: () => void}} given */
function TokenRow({ token, place, revoked }) {
  const { id, purpose, label, profile, made_at: made, ends_at: ends, current } = token;
  const [asking, setAsking] = useState(false);
  const isBrowser = purpose === "browser";
  const name = label || (isBrowser ? "A browser" : "A token without a name");
  const [action, done] = isBrowser ? ["Sign out", "Signed out"] : ["Revoke", "Revoked"];
  const revoke = async () => {
    await call(`${place}/${encodeURIComponent(id)}`, { method: "DELETE" });
    say(`${done}: ${name}`);
    revoked();
  };
  return html`
    <li data-testid="token" data-id=${id} data-status=${purpose}>
      <div>
        <p>${name} <span class="mark">${isBrowser ? "browser" : "token"}</span>${current && html` <span class="mark">this one</span>`}</p>
        <p class="quiet-text">
          Made <${When} at=${made} />${ends && html`, ends <${When} at=${ends} shown=${day} />`}${profile && html`, opens only <code>/p/${profile}/mcp</code>`}
        </p>
      </div>
      <button type="button" onClick=${() => setAsking(true)} data-testid="revoke-token" aria-label=${`${action}: ${name}`}>
        ${action}
      </button>
      ${
        asking &&
        html`<${Confirm} title=${`${action}: ${name}?`} action=${action} danger=${true} onClose=${() => setAsking(false)} doIt=${revoke}>
          <p>${isBrowser ? "Pages that are open in that browser stop working." : "Programs can no longer use it. Tokens that were made with it are revoked, too."}</p>
          ${current && html`<p><strong>This page uses it</strong>, and stops working.</p>`}
        <//>`
      }
    </li>
  `;
}

/**
 * The clients that act in the name of a member.
 * @param {{place: string, onRevoked?: () => void}} given `place` is their address
 */
export function ClientList({ place, onRevoked = () => {} }) {
  const loaded = useLoaded((signal) => get(place, signal), [place]);
  const clients = /** @type {Api.MemberClient[] | null} */ (loaded.data?.clients ?? null);
  const revoked = () => {
    loaded.again();
    onRevoked();
  };
  return html`
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!clients && !loaded.error && html`<${Waiting} />`}
    ${clients?.length === 0 && html`<p class="quiet-text" data-testid="no-clients">No clients.</p>`}
    ${
      clients &&
      clients.length > 0 &&
      html`<ul class="rows" data-testid="clients">
        ${clients.map((client) => html`<${ClientRow} key=${client.id} client=${client} place=${place} revoked=${revoked} />`)}
      </ul>`
    }
  `;
}

/** @param {{client: Api.MemberClient, place: string, revoked: () => void}} given */
function ClientRow({ client, place, revoked }) {
  const { id, name, sent_to: sentTo, allowed_at: allowed, renewed_at: renewed, ends_at: ends } = client;
  const [asking, setAsking] = useState(false);
  const revoke = async () => {
    await call(`${place}/${encodeURIComponent(id)}`, { method: "DELETE" });
    say(`Revoked: ${name}`);
    revoked();
  };
  return html`
    <li data-testid="client" data-id=${id}>
      <div>
        <p>${name || "A client without a name"}</p>
        <p class="quiet-text">
          The client gave itself this name${sentTo && html`, and is at <code>${sentTo}</code>`}.
          ${allowed && html` Allowed <${When} at=${allowed} />`}${renewed && html`, last seen <${When} at=${renewed} />`}${ends && html`, ends <${When} at=${ends} shown=${day} />`}.
        </p>
      </div>
      <button type="button" onClick=${() => setAsking(true)} data-testid="revoke-client" aria-label=${`Revoke: ${name}`}>
        Revoke
      </button>
      ${
        asking &&
        html`<${Confirm} title=${`Revoke: ${name}?`} action="Revoke" danger=${true} onClose=${() => setAsking(false)} doIt=${revoke}>
          <p>Its tokens are no longer valid. It can ask for access again.</p>
        <//>`
      }
    </li>
  `;
}
