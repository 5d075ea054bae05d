// A button that copies text. Where the browser does not allow that, the text is shown, and the user copies it by hand.

import { html, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { say } from "./say.js";

/** @param {{text: string | (() => string), label?: string, said?: string, testid?: string, class?: string}} given */
export function CopyButton({ text, label = "Copy", said = "Copied", testid = "copy", class: kind = "" }) {
  const [byHand, setByHand] = useState(/** @type {string | null} */ (null));
  const copy = async () => {
    const whole = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(whole);
      say(said);
    } catch {
      setByHand(whole);
    }
  };
  return html`
    <button type="button" class=${kind} onClick=${copy} data-testid=${testid}>${label}</button>
    ${
      byHand !== null &&
      html`
        <${Dialog} title=${label} onClose=${() => setByHand(null)}>
          <div class="dialog-body">
            <label class="field">
              <span class="label">Select it and copy</span>
              <textarea
                class="code"
                rows="10"
                readonly
                onFocus=${(/** @type {{target: HTMLTextAreaElement}} */ event) => event.target.select()}
              >
${byHand}</textarea>
            </label>
          </div>
        <//>
      `
    }
  `;
}
