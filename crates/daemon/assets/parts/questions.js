// The questions, one below the other. A click that was meant for one question never answers another one that has just moved
// into its place.

import { LINGER, shownAfter } from "../shown-questions.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { Asker, Question } from "./question.js";

/** How long a question ignores clicks after it has moved. In ms. */
const SETTLE = 500;

/** @param {{waiting: Api.Question[], inline?: boolean, children?: unknown}} given `children` are shown while there is no question */
export function Questions({ waiting, inline = false, children = null }) {
  const shown = useRef(/** @type {import("../shown-questions.js").Shown[]} */ ([]));
  const answered = useRef(/** @type {Set<string>} */ (new Set()));
  const [, renderAgain] = useState(0);
  shown.current = shownAfter(shown.current, waiting, answered.current, performance.now());
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useSettled(list);
  const onFocusIn = useFocusKept(list, shown.current);
  const ends = shown.current.flatMap(({ over }) => (over === null ? [] : [over]));
  const firstEnd = ends.length > 0 ? Math.min(...ends) : null;
  // Renders again when the question that ended first has been shown for long enough.
  useEffect(() => {
    if (firstEnd === null) return undefined;
    const timer = setTimeout(() => renderAgain((turn) => turn + 1), Math.max(0, firstEnd + LINGER - performance.now()));
    return () => clearTimeout(timer);
  });
  const mark = (/** @type {string} */ id) => (/** @type {boolean} */ isAnswered) =>
    isAnswered ? answered.current.add(id) : answered.current.delete(id);
  if (shown.current.length === 0) return children;
  return html`
    <ul
      ref=${list}
      class=${inline ? "questions inline" : "questions"}
      aria-label="Questions that wait"
      onFocusIn=${onFocusIn}
      data-testid="questions"
    >
      ${shown.current.map(
        ({ question, over }) =>
          html`<li key=${question.id} data-id=${question.id}>
            ${over === null ? html`<${Question} question=${question} onAnswer=${mark(question.id)} />` : html`<${Over} question=${question} />`}
          </li>`,
      )}
    </ul>
  `;
}

/** A question that ended without an answer on this page. @param {{question: Api.Question}} given */
function Over({ question }) {
  return html`
    <article class="question panel" data-testid="question-over" data-id=${question.id}>
      <header class="question-head"><${Asker} question=${question} /></header>
      <p class="quiet-text" role="status">This question has ended: it was answered elsewhere, or its call was cancelled.</p>
    </article>
  `;
}

/**
 * Moves the focus when the question that has it ends: to the next open question, or to the heading of the page.
 * @param {{current: HTMLElement | null}} list
 * @param {import("../shown-questions.js").Shown[]} shown
 */
function useFocusKept(list, shown) {
  const had = useRef({ id: "", at: 0 });
  useLayoutEffect(() => {
    const { id, at } = had.current;
    if (id === "" || shown.some(({ question, over }) => question.id === id && over === null)) return;
    had.current = { id: "", at: 0 };
    // If the user has moved the focus elsewhere meanwhile, it stays there.
    if (document.activeElement !== document.body) return;
    const isOpen = shown.map(({ over }) => over === null);
    const next = isOpen.indexOf(true, at) >= 0 ? isOpen.indexOf(true, at) : isOpen.lastIndexOf(true);
    const heading = next >= 0 ? list.current?.children[next]?.querySelector("h2") : document.querySelector("main h1");
    if (heading instanceof HTMLElement) heading.focus();
  });
  return (/** @type {FocusEvent} */ { target }) => {
    const item = target instanceof Element ? target.closest("li[data-id]") : null;
    if (!(item instanceof HTMLElement)) return;
    had.current = { id: item.dataset.id ?? "", at: [...(list.current?.children ?? [])].indexOf(item) };
  };
}

/**
 * Makes a question that has just moved ignore the pointer for [SETTLE], and keeps the height of a question that has ended.
 * @param {{current: HTMLElement | null}} list
 */
function useSettled(list) {
  const places = useRef(/** @type {Map<string, {top: number, height: number}>} */ (new Map()));
  const timers = useRef(/** @type {Map<string, number>} */ (new Map()));
  useLayoutEffect(() => {
    const items = /** @type {HTMLElement[]} */ ([...(list.current?.children ?? [])]);
    const before = places.current;
    for (const item of items) {
      const old = before.get(item.dataset.id ?? "");
      const isOver = item.querySelector('[data-testid="question-over"]') !== null;
      if (isOver && old) item.style.minHeight = `${old.height}px`;
    }
    places.current = new Map(
      items.map((item) => [item.dataset.id ?? "", { top: item.offsetTop, height: item.offsetHeight }]),
    );
    for (const item of items) {
      const id = item.dataset.id ?? "";
      if (before.get(id)?.top === item.offsetTop) continue;
      item.classList.add("settling");
      clearTimeout(timers.current.get(id));
      timers.current.set(
        id,
        setTimeout(() => {
          item.classList.remove("settling");
          timers.current.delete(id);
        }, SETTLE),
      );
    }
  });
  useEffect(() => () => timers.current.forEach((timer) => clearTimeout(timer)), []);
}
