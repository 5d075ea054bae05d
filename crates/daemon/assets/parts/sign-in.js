// Signing in to a server: the page of its authorization server, in a tab of this browser.

import { call, post, Refusal, serverPath } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { refresh } from "../world.js";
import { useAction } from "./loaded.js";
import { Trouble } from "./problem.js";

/** How often the page asks the daemon whether the user has signed in. In ms. */
const LOOK_AGAIN = 1_000;

/** Returns whether a server's page can be opened, which must be a page of the web. @param {string | null} page */
const isPage = (page) => page !== null && /^https?:\/\//.test(page);

/** @param {{name: string}} given */
export function SignIn({ name }) {
  const [signing, setSigning] = useState(/** @type {Api.SigningIn | null} */ (null));
  const begin = useAction(async () => {
    const begun = /** @type {Api.SigningIn} */ (await post(serverPath(name, "/sign-in")));
    setSigning(begun);
    // If the browser opens no tab by itself, the user clicks the link beside the button.
    if (isPage(begun.page)) window.open(begun.page ?? "", "_blank", "noopener,noreferrer");
  });
  const [address, setAddress] = useState("");
  const paste = useAction(async () => {
    await post(serverPath(name, "/sign-in/address"), { address: address.trim() });
    setAddress("");
  });
  const isWaiting = signing?.state === "waiting";
  useEffect(() => {
    if (!isWaiting) return;
    const ended = new AbortController();
    const timer = setInterval(async () => {
      try {
        const now = await call(serverPath(name, "/sign-in"), { signal: ended.signal });
        setSigning(/** @type {Api.SigningIn} */ (now));
        if (now.state === "done") refresh("servers", "overview");
      } catch {
        // The next request may succeed.
      }
    }, LOOK_AGAIN);
    return () => {
      ended.abort();
      clearInterval(timer);
    };
  }, [name, isWaiting]);
  const failed =
    signing?.state === "failed"
      ? new Refusal(0, { code: "SIGN_IN", message: signing.error ?? undefined, hint: signing.hint })
      : null;
  return html`
    <span class="sign-in" data-testid="sign-in" data-status=${signing?.state ?? "idle"}>
      <button type="button" disabled=${begin.busy} onClick=${() => begin.run()} data-testid="connect">Connect</button>
      ${isWaiting && isPage(signing.page) && html`<a href=${signing.page} target="_blank" rel="noopener noreferrer" data-testid="sign-in-page">Open the sign-in page</a>`}
      ${isWaiting && isPage(signing.page) && html`
        <form class="sign-in-paste" onSubmit=${(/** @type {Event} */ event) => {
          event.preventDefault();
          paste.run();
        }}>
          <label>
            If your browser is on another machine, paste the address that it ends up at
            <input class="code" type="url" required autocomplete="off" value=${address}
              onInput=${(/** @type {any} */ event) => setAddress(event.target.value)} data-testid="sign-in-address" />
          </label>
          <button type="submit" disabled=${paste.busy || address.trim() === ""} data-testid="sign-in-paste">Continue</button>
        </form>
      `}
      <${Trouble} error=${paste.error ?? begin.error ?? failed} />
    </span>
  `;
}
