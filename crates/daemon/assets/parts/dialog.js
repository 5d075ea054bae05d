// Dialogs: the browser's own, which keep the focus inside, close with Escape and give the focus back.

import { html, useId, useLayoutEffect, useRef } from "../html.js";
import { useAction } from "./loaded.js";
import { Trouble } from "./problem.js";

/** @param {{title: string, onClose: () => void, children?: unknown, testid?: string, wide?: boolean}} given */
export function Dialog({ title, onClose, children, testid = "dialog", wide = false }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  // A layout effect, so that the focus has returned by the time that the dialog is closed.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const shown = dialog.current;
    shown?.showModal();
    return () => {
      // While the dialog is open, nothing outside of it can take the focus.
      shown?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const onCancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  return html`
    <dialog ref=${dialog} class=${wide ? "wide" : ""} aria-labelledby=${id} onCancel=${onCancel} data-testid=${testid}>
      <header class="dialog-head">
        <h2 id=${id}>${title}</h2>
        <button type="button" class="quiet icon" aria-label="Close" onClick=${onClose}>×</button>
      </header>
      ${children}
    </dialog>
  `;
}

/**
 * Asks the user before an action that cannot be undone.
 * @param {{title: string, action: string, danger?: boolean, onClose: () => void, doIt: () => Promise<unknown>, children?: unknown, wide?: boolean}} given
 */
export function Confirm({ title, action, danger = false, onClose, doIt, children, wide }) {
  const act = useAction(async () => {
    await doIt();
    onClose();
  });
  return html`
    <${Dialog} title=${title} onClose=${onClose} testid="confirm" wide=${wide}>
      <div class="dialog-body">${children}<${Trouble} error=${act.error} /></div>
      <footer class="dialog-foot">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button
          type="button"
          class=${danger ? "danger" : "primary"}
          disabled=${act.busy}
          onClick=${() => act.run()}
          data-testid="confirm-action"
        >
          ${action}
        </button>
      </footer>
    <//>
  `;
}
