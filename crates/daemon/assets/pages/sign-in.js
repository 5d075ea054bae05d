// The sign-in: the person signs in with the provider, or enters the token of this launch.

import { html, useState } from "../html.js";
import { keepPlace } from "../router.js";
import { keepToken, refused, signInAt, tokenIn } from "../token.js";
import { onText } from "../parts/input.js";

/** Returns the token in a text, which may be the whole address. @param {string} given */
function tokenOf(given) {
  const at = given.indexOf("#token=");
  return (at >= 0 ? tokenIn(given.slice(at)) : given.trim()) || null;
}

export function SignIn() {
  const place = signInAt.value;
  return html`
    <main class="sign-in" data-testid="sign-in">
      <img src="./assets/icon.svg" alt="" width="40" height="40" />
      <h1>Toolrack</h1>
      ${place ? html`<${ByProvider} place=${place} />` : html`<${ByToken} />`}
    </main>
  `;
}

/** @param {{place: string}} given */
function ByProvider({ place }) {
  const to = encodeURIComponent(location.pathname + location.search);
  return html`
    ${refused.value && html`<p class="notice warn" role="alert">Your session has ended.</p>`}
    <p>Sign in with the account of your organisation.</p>
    <p><a class="button primary" href=${`${place}?to=${to}`} onClick=${keepPlace} data-testid="sign-in-link">Sign in</a></p>
    <details>
      <summary>I have a token</summary>
      <${TokenForm} />
    </details>
  `;
}

function ByToken() {
  return html`
    ${refused.value && html`<p class="notice warn" role="alert">The daemon refused the token of this browser: it has been restarted since.</p>`}
    <p>
      Each start of the daemon has a token of its own. <code>toolrack up</code> prints an address with it: open that
      address, or paste it here.
    </p>
    <${TokenForm} />
  `;
}

function TokenForm() {
  const [given, setGiven] = useState("");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const found = tokenOf(given.trim());
    if (found) keepToken(found);
  };
  return html`
    <form onSubmit=${submit}>
      <label class="field">
        <span class="label">Address or token</span>
        <input
          type="text"
          class="code"
          autocomplete="off"
          spellcheck=${false}
          value=${given}
          onInput=${onText(setGiven)}
          data-testid="token"
        />
      </label>
      <button type="submit" class="primary" disabled=${!given.trim()}>Open the dashboard</button>
    </form>
  `;
}
