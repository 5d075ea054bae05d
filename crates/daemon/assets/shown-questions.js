// The questions that the page shows. Pure.

/** How long a question that ended by itself keeps its place, so that a user who is about to click on it sees that. In ms. */
export const LINGER = 4_000;

/**
 * A question that is shown.
 * @typedef {object} Shown
 * @property {Api.Question} question
 * @property {number | null} over when it ended, if it was not answered on this page
 */

/**
 * Returns the questions to show now. No question moves: new ones come below, and one that has ended goes only after a while,
 * unless it was answered on this page.
 * @param {Shown[]} before
 * @param {Api.Question[]} waiting
 * @param {Set<string>} answered the ids of those that were answered on this page
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
