// Errors, each with the next step if there is one.

import { Refusal } from "../api.js";
import { html } from "../html.js";
import { spoken } from "./text.js";

/** @param {{error: unknown, again?: (() => void) | null}} given */
export function Trouble({ error, again = null }) {
  if (!error) return null;
  const message = error instanceof Error ? error.message : String(error);
  const hint = error instanceof Refusal ? error.hint : null;
  return html`
    <div
      class="notice bad"
      role="alert"
      data-testid="trouble"
      data-code=${error instanceof Refusal ? error.code : "PAGE"}
    >
      <p>${spoken(message)}</p>
      ${hint && html`<p class="hint">${spoken(hint)}</p>`}
      ${again && html`<button type="button" onClick=${again}>Try again</button>`}
    </div>
  `;
}

/**
 * The problems of configuration files, each with its place.
 * @param {{problems: Api.Problem[]}} given
 */
export function Problems({ problems }) {
  if (problems.length === 0) return null;
  return html`
    <ul class="problems" data-testid="problems">
      ${problems.map(
        (problem) => html`
          <li class=${problem.severity === "error" ? "notice bad" : "notice warn"} data-status=${problem.severity}>
            <p>
              <strong>${problem.severity === "error" ? "Error" : "Warning"}</strong>
              ${problem.entry ? ` in ${problem.entry}` : ""}: ${spoken(problem.message)}
            </p>
            ${problem.path && html`<p class="place">${placeOf(problem)}</p>`}
            ${!problem.path && problem.line && html`<p class="place">line ${problem.line}, column ${problem.column ?? 1}</p>`}
            ${problem.hint && html`<p class="hint">${spoken(problem.hint)}</p>`}
          </li>
        `,
      )}
    </ul>
  `;
}

/** @param {{path?: string | null, line?: number | null, column?: number | null}} problem */
const placeOf = ({ path, line, column }) =>
  [path, line, column].filter((part) => part !== null && part !== undefined).join(":");
