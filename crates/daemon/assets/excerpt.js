// The beginning of a long text, which the page shows until the user asks for all of it. Pure.

/** The most characters and lines of an excerpt. */
const CHARACTERS = 320;
const LINES = 4;

/**
 * Returns the beginning of a long text; null when the text is short enough to be shown as a whole.
 * @param {string} text
 * @returns {string | null}
 */
export function excerptOf(text) {
  const characters = [...text];
  let end = Math.min(characters.length, CHARACTERS);
  let lines = 1;
  for (let at = 0; at < end; at += 1) {
    if (characters[at] === "\n" && ++lines > LINES) end = at;
  }
  return end === characters.length ? null : characters.slice(0, end).join("").trimEnd();
}
