// The box in which the user writes a message.

import { html, useEffect, useId, useRef } from "../html.js";
import { onText } from "./input.js";

/**
 * @param {{text: string, onChange: (text: string) => void, onSend: () => void, onStop: () => void, state: "idle" | "loading" | "running" | "stopping"}} given
 */
export function Composer({ text, onChange, onSend, onStop, state }) {
  const id = useId();
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const isGoing = state === "running" || state === "stopping";
  // Makes the box as tall as its text, up to the maximum of its style; not every browser does that by itself.
  const rows = Math.min(8, text.split("\n").length);
  useEffect(() => {
    // On a touch screen the keyboard would cover the answer.
    if (matchMedia("(pointer: fine)").matches) box.current?.focus({ preventScroll: true });
  }, []);
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (state === "idle" && text.trim() !== "") onSend();
    box.current?.focus({ preventScroll: true });
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    // In some scripts, Enter also ends the choice of a character; that must not send the message.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  };
  return html`
    <form class="composer" onSubmit=${send} data-testid="composer">
      <label class="hidden" for=${id}>Message</label>
      <textarea
        id=${id}
        ref=${box}
        rows=${rows}
        value=${text}
        placeholder="Ask something"
        aria-describedby=${`${id}-keys`}
        onInput=${onText(onChange)}
        onKeyDown=${onKeyDown}
        data-testid="message"
      />
      ${
        isGoing
          ? html`<button type="button" key="stop" disabled=${state === "stopping"} onClick=${onStop} data-testid="stop">
              ${state === "stopping" ? "Stopping…" : "Stop"}
            </button>`
          : html`<button
              type="submit"
              key="send"
              class="primary"
              disabled=${state !== "idle" || text.trim() === ""}
              data-testid="send"
            >
              Send
            </button>`
      }
      <p class="keys quiet-text" id=${`${id}-keys`}>Enter sends, Shift and Enter begin a new line.</p>
    </form>
  `;
}
