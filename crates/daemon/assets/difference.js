// The difference between two definitions of a tool, field by field and line by line. Pure.

/** @typedef {{kind: "same" | "added" | "removed", text: string}} Line */

/** @typedef {{name: string, status: "same" | "changed", lines: Line[]}} Field */

/** The most comparisons of lines. Beyond them, all old lines are shown as removed, and all new ones as added. */
const MAX_COMPARISONS = 1_000_000;

/** The fields that come first; the others follow by name. */
const FIRST = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/**
 * Returns the fields of a definition: first those that changed, then the others.
 * @param {Record<string, unknown>} now
 * @param {Record<string, unknown> | null} before null if it is not known
 * @returns {Field[]}
 */
export function fieldsOf(now, before) {
  const rank = (/** @type {string} */ name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  const names = [...new Set([...Object.keys(now), ...Object.keys(before ?? {})])].sort(
    (one, other) => rank(one) - rank(other) || one.localeCompare(other),
  );
  const fields = names.map((name) => {
    const [then, today] = [before ? written(before[name]) : written(now[name]), written(now[name])];
    const lines = difference(then, today);
    const status = lines.every(({ kind }) => kind === "same") ? "same" : "changed";
    return /** @type {Field} */ ({ name, status, lines });
  });
  const of = (/** @type {string} */ wanted) => fields.filter(({ status }) => status === wanted);
  return [...of("changed"), ...of("same")];
}

/** Returns a value as lines to read; none if there is no value. @param {unknown} value */
function written(value) {
  if (value === undefined || value === null) return [];
  return (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "")).split("\n");
}

/**
 * Returns the lines of both; removed lines stand before those that replace them.
 * @param {string[]} before
 * @param {string[]} now
 * @returns {Line[]}
 */
export function difference(before, now) {
  const line = (/** @type {Line["kind"]} */ kind) => (/** @type {string} */ text) => ({ kind, text });
  if (before.length * now.length > MAX_COMPARISONS) return [...before.map(line("removed")), ...now.map(line("added"))];
  // `old` and `fresh` are indices of lines in `before` and `now`. `common[old][fresh]` is the number of common lines from there on.
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(now.length + 1));
  for (let old = before.length - 1; old >= 0; old -= 1)
    for (let fresh = now.length - 1; fresh >= 0; fresh -= 1)
      common[old][fresh] =
        before[old] === now[fresh] ? common[old + 1][fresh + 1] + 1 : Math.max(common[old + 1][fresh], common[old][fresh + 1]);
  const lines = [];
  let [old, fresh] = [0, 0];
  while (old < before.length || fresh < now.length) {
    if (old < before.length && fresh < now.length && before[old] === now[fresh]) {
      lines.push(line("same")(now[fresh]));
      [old, fresh] = [old + 1, fresh + 1];
    } else if (fresh === now.length || (old < before.length && common[old + 1][fresh] >= common[old][fresh + 1])) {
      lines.push(line("removed")(before[old]));
      old += 1;
    } else {
      lines.push(line("added")(now[fresh]));
      fresh += 1;
    }
  }
  return lines;
}
