// Tries one server step by step, and says which step fails.

import { post, serverPath } from "../api.js";
import { duration } from "../format.js";
import { html, useState } from "../html.js";
import { useAction } from "../parts/loaded.js";
import { Trouble } from "../parts/problem.js";
import { spoken } from "../parts/text.js";

/** @param {{server: Api.Server}} given */
export function ServerHealth({ server }) {
  const { name, state } = server;
  const [result, setResult] = useState(/** @type {Api.TestResult | null} */ (null));
  const test = useAction(() => post(serverPath(name, "/test")));
  const run = async () => {
    setResult(null);
    setResult((await test.run()) ?? null);
  };
  if (state === "pending_trust") return html`<p>It is not started before you agree. <a href="#/trust">See what it would run</a></p>`;
  return html`
    <p>Connects anew, beside the running connection, and looks at each step.</p>
    <p class="actions"><button type="button" class="primary" disabled=${test.busy} onClick=${run} data-testid="run-test">${test.busy ? "Testing…" : "Test"}</button></p>
    <${Trouble} error=${test.error} />
    ${result &&
    html`
      <div data-testid="test-result" data-status=${result.ok ? "ok" : "failed"}>
        <p class=${result.ok ? "good-text" : "bad-text"}><strong>${result.ok ? "It works." : "It does not work."}</strong> ${duration(result.duration_ms)}</p>
        <ol class="steps">
          ${result.steps.map((step) => html`<li class=${step.ok ? "ok" : "bad"} data-status=${step.ok ? "ok" : "failed"}><span class="sign" aria-hidden="true">${step.ok ? "✓" : "✗"}</span><span><strong>${step.stage}</strong><span class="hidden">${step.ok ? " passed" : " failed"}</span> <span class="what">${spoken(step.what)}</span></span></li>`)}
        </ol>
      </div>
    `}
    ${state === "needs_auth" && html`<p class="notice warn">It wants a sign-in${server.how ? html`: ${spoken(server.how)}` : "."}</p>`}
  `;
}
