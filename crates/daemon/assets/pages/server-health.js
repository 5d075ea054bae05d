// The steps from a server's entry to its tools, and which of them failed.

import { post, serverPath } from "../api.js";
import { html } from "../html.js";
import { useLoaded } from "../parts/loaded.js";
import { HelpLink } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { spoken, Waiting } from "../parts/text.js";

/** @param {{server: Api.Server}} given */
export function ServerHealth({ server }) {
  const { name, state } = server;
  const test = useLoaded(() => post(serverPath(name, "/test")), [name, state]);
  const result = /** @type {Api.TestResult | null} */ (test.data);
  return html`
    <p class="quiet-text">
      The steps from the entry to the tools, and the one that failed. <${HelpLink} about="a server that does not work" />
    </p>
    <${Trouble} error=${test.error} />
    ${!result && !test.error && html`<${Waiting} />`}
    ${
      result &&
      html`
        <div class="panel" data-testid="test-result" data-status=${result.ok ? "ok" : "failed"}>
          <p class=${result.ok ? "good-text" : "bad-text"}>
            <strong>${result.ok ? "It works." : "It does not work."}</strong>
          </p>
          <ol class="steps">
            ${result.steps.map(
              (step) =>
                html`<li class=${step.ok ? "ok" : "bad"} data-status=${step.ok ? "ok" : "failed"}>
                  <span class="sign" aria-hidden="true">${step.ok ? "✓" : "✗"}</span>
                  <span>
                    <strong>${step.stage}</strong><span class="hidden">${step.ok ? " passed" : " failed"}</span>${" "}
                    <span class="what">${spoken(step.what)}</span></span>
                </li>`,
            )}
          </ol>
        </div>
      `
    }
    <p class="actions">
      <button type="button" disabled=${test.loading} onClick=${test.again} data-testid="run-test">Check again</button>
      ${state === "pending_trust" && html`<a class="button" href="#/trust">See the command</a>`}
    </p>
    ${state === "needs_auth" && html`<p class="notice warn">It wants a sign-in${server.how ? html`: ${spoken(server.how)}` : "."} <${HelpLink} about="signing in" /></p>`}
  `;
}
