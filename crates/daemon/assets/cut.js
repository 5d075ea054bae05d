// How much of a long text is shown before the user wants all of it. Pure.

/** Characters and lines of a description that are shown at first. */
const CHARACTERS = 320;
const LINES = 4;

/**
 * The beginning of a long text; null when the text is short enough to be shown as it is.
 * @param {string} text
 * @returns {string | null}
 */
export function cutOf(text) {
  const characters = [...text];
  let end = Math.min(characters.length, CHARACTERS);
  let lines = 1;
  for (let at = 0; at < end; at += 1) {
    if (characters[at] === "\n" && ++lines > LINES) end = at;
  }
  return end === characters.length ? null : characters.slice(0, end).join("").trimEnd();
}
