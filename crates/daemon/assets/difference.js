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
  // `common[i][j]` is the number of common lines from `before[i]` and `now[j]` on.
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(now.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1)
    for (let j = now.length - 1; j >= 0; j -= 1)
      common[i][j] =
        before[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const lines = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < now.length) {
    if (i < before.length && j < now.length && before[i] === now[j]) {
      lines.push(line("same")(now[j]));
      [i, j] = [i + 1, j + 1];
    } else if (j === now.length || (i < before.length && common[i + 1][j] >= common[i][j + 1])) {
      lines.push(line("removed")(before[i]));
      i += 1;
    } else {
      lines.push(line("added")(now[j]));
      j += 1;
    }
  }
  return lines;
}
