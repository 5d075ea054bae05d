// The tokens, browsers and clients of the member who looks at this page, to make and revoke them.

import { call, post } from "../api.js";
import { day } from "../format.js";
import { html, useState } from "../html.js";
import { signOut } from "../me.js";
import { ClientList, TokenList, When } from "../parts/access.js";
import { CopyButton } from "../parts/copy.js";
import { Confirm, Dialog } from "../parts/dialog.js";
import { onText } from "../parts/input.js";
import { useAction } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { isSignedIn } from "../token.js";

/** How long a token may last. In days, with the words for people. @type {[number, string][]} */
const LIFETIMES = [
  [1, "1 day"],
  [7, "7 days"],
  [30, "30 days"],
  [90, "90 days"],
  [365, "1 year"],
];

export function Access() {
  const [made, setMade] = useState(0);
  const [asking, setAsking] = useState(false);
  const leave = async () => {
    await call("/api/v1/me/sessions", { method: "DELETE" });
    // The cookie of this browser goes, too.
    await signOut();
  };
  return html`
    <${Head} title="My access" help="access" about="The tokens, browsers and clients that can use this team in your name. Revoke those that you do not know.">
      ${
        isSignedIn.value &&
        html`<button type="button" onClick=${() => setAsking(true)} data-testid="sign-out-everywhere">
          Sign out everywhere
        </button>`
      }
    <//>
    <section class="panel" aria-labelledby="own-tokens">
      <h2 id="own-tokens">Tokens and browsers</h2>
      <${TokenList} place="/api/v1/me/tokens" because=${made} />
    </section>
    <${NewToken} onMade=${() => setMade((before) => before + 1)} />
    <section class="panel" aria-labelledby="own-clients">
      <h2 id="own-clients">Clients that act in your name</h2>
      <${ClientList} place="/api/v1/me/clients" />
    </section>
    ${
      asking &&
      html`<${Confirm} title="Sign out everywhere?" action="Sign out" danger=${true} onClose=${() => setAsking(false)} doIt=${leave}>
        <p>Every browser in which you are signed in is signed out, this one as well. Tokens and clients stay.</p>
      <//>`
    }
  `;
}

/** @param {{onMade: () => void}} given */
function NewToken({ onMade }) {
  const [label, setLabel] = useState("");
  const [days, setDays] = useState("90");
  const [shown, setShown] = useState(/** @type {Api.MadeToken | null} */ (null));
  const make = useAction(async () => {
    setShown(await post("/api/v1/me/tokens", { label: label.trim(), days: Number(days) }));
    setLabel("");
    onMade();
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    make.run();
  };
  return html`
    <section class="panel" aria-labelledby="new-token">
      <h2 id="new-token">Make a token</h2>
      <p class="help">For a program that cannot sign in. It may do what you may do.</p>
      <form onSubmit=${submit}>
        <label class="field">
          <span class="label">What it is for</span>
          <input maxlength="128" value=${label} onInput=${onText(setLabel)} data-testid="token-label" />
        </label>
        <label class="field">
          <span class="label">How long it lasts</span>
          <select value=${days} onChange=${onText(setDays)} data-testid="token-days">
            ${LIFETIMES.map(([days, words]) => html`<option value=${String(days)}>${words}</option>`)}
          </select>
        </label>
        <${Trouble} error=${make.error} />
        <p class="actions">
          <button type="submit" class="primary" disabled=${!label.trim() || make.busy} data-testid="make-token">
            Make it
          </button>
        </p>
      </form>
      ${
        shown &&
        html`<${Dialog} title="Your token" onClose=${() => setShown(null)} testid="made-token">
          <div class="dialog-body">
            <p>Copy it now: it is not shown again. It lasts until <${When} at=${shown.ends_at} shown=${day} />.</p>
            <p><code class="path" data-testid="made-secret">${shown.token}</code></p>
          </div>
          <footer class="dialog-foot">
            <${CopyButton} text=${shown.token} label="Copy" class="primary" testid="copy-token" />
            <button type="button" onClick=${() => setShown(null)}>Done</button>
          </footer>
        <//>`
      }
    </section>
  `;
}
