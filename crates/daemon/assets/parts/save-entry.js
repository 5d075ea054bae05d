// Shows the difference that a change makes to the file, and saves it when the user confirms.

import { html } from "../html.js";
import { refresh } from "../world.js";
import { Confirm } from "./dialog.js";
import { Problems } from "./problem.js";
import { say } from "./say.js";
import { Diff } from "./text.js";

/**
 * @param {{edited: Api.Edited, save: () => Promise<unknown>, onClose: () => void, onDone: () => void}} given
 *   `edited` is the result of a dry run
 */
export function SaveEntry({ edited, save, onClose, onDone }) {
  const doIt = async () => {
    await save();
    say(`Saved ${edited.name}`);
    refresh("servers", "overview", "config");
    onDone();
  };
  return html`
    <${Confirm} title=${`Save ${edited.name}?`} action="Save" wide=${true} onClose=${onClose} doIt=${doIt}>
      <p>${edited.created ? "A new file: " : "This changes "}<span class="path">${edited.path}</span></p>
      <${Diff} diff=${edited.diff} />
      <${Problems} problems=${edited.warnings ?? []} />
      ${
        (edited.secrets?.length ?? 0) > 0 &&
        html`<p data-testid="kept-secrets">
          Kept among the stored secrets: ${edited.secrets?.map((one) => `${one.what} as ${one.name}`).join(", ")}. The file
          says <code>${"${secret:NAME}"}</code> in their place.
        </p>`
      }
      <p class="quiet-text">
        Secrets are hidden here. In the file stands everything else that you typed; what you left as <code>***</code> stays as it was.
      </p>
    <//>
  `;
}
