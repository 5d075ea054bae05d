// The choice of the file to which an entry is written.

import { html } from "../html.js";
import { onText } from "./input.js";

const SCOPES = [
  { scope: "user", label: "Mine, everywhere" },
  { scope: "local", label: "Mine, in this project" },
  { scope: "project", label: "The project's, for all its users" },
];

/** @param {{scope: string, onChange: (scope: string) => void}} given */
export function ScopeField({ scope, onChange }) {
  return html`
    <label class="field">
      <span class="label">Whose it is</span>
      <select value=${scope} onChange=${onText(onChange)} data-testid="scope">
        ${SCOPES.map((one) => html`<option value=${one.scope} selected=${one.scope === scope}>${one.label}</option>`)}
      </select>
    </label>
  `;
}
