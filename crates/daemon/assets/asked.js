// Which questions are shown. Pure.

/** So long a question that ended by itself keeps its place, and says so: who is about to click on it must see it. In ms. */
export const LINGER = 4_000;

/**
 * A question that is shown.
 * @typedef {object} Shown
 * @property {Api.Question} question
 * @property {number | null} over since when it is over, though it was not answered here
 */

/**
 * What is shown now. Nothing changes places: what is new comes below, and what is over goes only after a while, unless it
 * was answered here.
 * @param {Shown[]} before
 * @param {Api.Question[]} waiting
 * @param {Set<string>} answered here
 * @param {number} now in ms
 * @returns {Shown[]}
 */
export function shownAfter(before, waiting, answered, now) {
  const open = new Map(waiting.map((question) => [question.id, question]));
  const kept = before.flatMap(/** @returns {Shown[]} */ ({ question: { id }, question, over }) => {
    const still = open.get(id);
    if (still) return [{ question: still, over: null }];
    const since = over ?? now;
    return answered.has(id) || now - since >= LINGER ? [] : [{ question, over: since }];
  });
  const known = new Set(kept.map(({ question }) => question.id));
  const added = waiting.filter(({ id }) => !known.has(id)).map((question) => ({ question, over: null }));
  return [...kept, ...added];
}
