// What became of a tool's definition, field by field and line by line. Pure.

/** @typedef {{kind: "same" | "added" | "removed", text: string}} Line */

/** @typedef {{name: string, status: "same" | "changed", lines: Line[]}} Field */

/** More than this many comparisons are not made: all that was is shown, and then all that is. */
const MAX_COMPARISONS = 1_000_000;

/** What people want to see first; then all others by name. */
const FIRST = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/**
 * The fields of a definition: those that changed, then those that stayed.
 * @param {Record<string, unknown>} now
 * @param {Record<string, unknown> | null} before null where nothing is known of it
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

/** A value as lines for reading; none where there is no value. @param {unknown} value */
function written(value) {
  if (value === undefined || value === null) return [];
  return (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "")).split("\n");
}

/**
 * The lines of both, in the order of a reader: what went before what came in its place.
 * @param {string[]} before
 * @param {string[]} now
 * @returns {Line[]}
 */
export function difference(before, now) {
  const line = (/** @type {Line["kind"]} */ kind) => (/** @type {string} */ text) => ({ kind, text });
  if (before.length * now.length > MAX_COMPARISONS) return [...before.map(line("removed")), ...now.map(line("added"))];
  // `common[i][j]`: how many lines can stay of those from `before[i]` and `now[j]` on.
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
