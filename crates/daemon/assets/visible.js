// Spells out characters in text of servers that are invisible or act on the display. Pure; the same characters as in
// `crates/host/src/text.rs`, where each of them has its name.

const UNSAFE =
  /[\0-\u{1f}\u{7f}-\u{9f}\u{ad}\u{34f}\u{180b}-\u{180f}\u{61c}\u{200e}\u{200f}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{200b}-\u{200d}\u{feff}\u{2028}\u{2029}\u{2060}-\u{2065}\u{206a}-\u{206f}\u{115f}\u{1160}\u{3164}\u{ffa0}\u{17b4}\u{17b5}\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}\u{fdd0}-\u{fdef}\u{fff0}-\u{fffb}\u{fffe}\u{ffff}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e00ff}\u{e01f0}-\u{e0fff}]/u;

/** Matches text that needs no closer look. */
const PLAIN = /^[ -~\n\t]*$/;

/** Letters of scripts whose spelling needs joiners between letters. */
const JOINS_LETTERS = /[\u{620}-\u{dff}\u{fb50}-\u{fdfb}\u{fe70}-\u{fefc}]/u;

/** Characters of which a joiner makes one emoji. */
const PICTOGRAPH =
  /[\u{2190}-\u{21ff}\u{2300}-\u{23ff}\u{24c2}\u{25a0}-\u{27bf}\u{2900}-\u{297f}\u{2b00}-\u{2bff}\u{1f000}-\u{1faff}]/u;

/** Other characters that a variation selector turns into emoji or text. */
const TAKES_VARIANT = /[0-9#*©®‼⁉™ℹ〰〽㊗㊙]/u;

/**
 * Returns the text as it can be shown, with its line breaks and tabs.
 * @param {string} text
 */
export const visible = (text) => spelled(text, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);

/** Spells the characters out as JSON does, so that the text is still the same JSON. @param {string} text */
export const visibleJson = (text) =>
  spelled(text, (c) =>
    [...Array(c.length).keys()].map((at) => `\\u${c.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );

/**
 * Returns a text of one line whose beginning and end can be seen: in quotes, if anything in it could deceive.
 * @param {string} text
 */
export const quoted = (text) => (/^[!#-&(-[\]-~]+$/.test(text) ? text : visibleJson(JSON.stringify(text)));

/** @param {string} text @param {(c: string) => string} write how a character is spelled */
function spelled(text, write) {
  if (PLAIN.test(text)) return text;
  const all = [...text];
  let out = "";
  // The last character that was written. Joiners are judged by it, so that a text that was spelled out already stays unchanged.
  let before = "";
  all.forEach((c, at) => {
    const after = all[at + 1] ?? "";
    if (c === "\r" && after === "\n") return;
    const shown = stays(c, before, after) ? c : write(c);
    out += shown;
    before = shown === c ? c : "}";
  });
  return out;
}

/** @param {string} c @param {string} before @param {string} after */
function stays(c, before, after) {
  if (c === "\n" || c === "\t" || !UNSAFE.test(c)) return true;
  const isLetter = (/** @type {string} */ near) => JOINS_LETTERS.test(near) && !UNSAFE.test(near);
  if (c === "\u200d" || c === "\u200c") {
    if (isLetter(before) && isLetter(after)) return true;
    return c === "\u200d" && (PICTOGRAPH.test(before) || before === "\ufe0f") && PICTOGRAPH.test(after);
  }
  return (c === "\ufe0e" || c === "\ufe0f") && (PICTOGRAPH.test(before) || TAKES_VARIANT.test(before));
}
