// Asks for the token of this launch.

import { html, useState } from "../html.js";
import { keepToken, refused, tokenIn } from "../token.js";
import { onText } from "../parts/input.js";

/** A token, or an address that has one in it. @param {string} given */
function tokenOf(given) {
  const at = given.indexOf("#token=");
  return (at >= 0 ? tokenIn(given.slice(at)) : given.trim()) || null;
}

export function SignIn() {
  const [given, setGiven] = useState("");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const found = tokenOf(given.trim());
    if (found) keepToken(found);
  };
  return html`
    <main class="sign-in" data-testid="sign-in">
      <img src="./assets/icon.svg" alt="" width="40" height="40" />
      <h1>Toolrack</h1>
      ${refused.value && html`<p class="notice warn" role="alert">The daemon does not take the token that this browser had: it was started anew since.</p>`}
      <p>
        Each start of the daemon has a token of its own. <code>toolrack up</code> prints an address with it: open that
        address, or paste it here.
      </p>
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
    </main>
  `;
}
