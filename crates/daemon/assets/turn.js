// A turn of a conversation: the user's message and all that the model does until it has answered, piece by piece. Pure.

/**
 * @typedef {{kind: "text", id: string, text: string, whole: boolean}} TextPiece
 * @typedef {{kind: "thinking", id: string, text: string, whole: boolean}} ThinkingPiece
 * @typedef {"running" | "ok" | "failed" | "stopped"} CallState
 * @typedef {{kind: "call", id: string, call: string, server: string | null, tool: string, arguments: unknown, state: CallState, text: string, parts: Api.Block[], duration: number | null, began: number | null}} CallPiece
 * @typedef {TextPiece | ThinkingPiece | CallPiece} Piece
 */

/**
 * @typedef {object} Turn
 * @property {string} id
 * @property {string} text the user's message; empty when an interrupted turn is continued
 * @property {"running" | "over" | "failed"} state
 * @property {Piece[]} pieces
 * @property {Api.TurnEnd | null} end how it ended, with its cost; null if that is not known
 * @property {unknown} error the error of a failed turn
 * @property {string | null} retry why the request to the model is repeated, until the model answers
 */

/** @param {string} id @param {string} text @returns {Turn} */
export const newTurn = (id, text) => ({ id, text, state: "running", pieces: [], end: null, error: null, retry: null });

/**
 * Applies an event of the stream.
 * @param {Turn} turn
 * @param {string} event
 * @param {any} data
 * @param {number} now ms
 * @returns {Turn}
 */
export function withEvent(turn, event, data, now) {
  return event === "retry"
    ? { ...withLastFinished(turn), retry: String(data.why) }
    : applied(turn.retry === null ? turn : { ...turn, retry: null }, event, data, now);
}

/** @param {Turn} turn @param {string} event @param {any} data @param {number} now @returns {Turn} */
function applied(turn, event, data, now) {
  switch (event) {
    case "asked":
      return withLastFinished(turn);
    case "text":
    case "thinking":
      return data.text ? written(turn, event, data.text) : turn;
    case "call_begins":
      return withPiece(
        withLastFinished(turn),
        callFrom(`${turn.id}/${turn.pieces.length}`, data.id, data.tool, data.arguments, now),
      );
    case "call_ends":
      return ended(turn, data);
    case "done":
      return withEnd(turn, data);
    default:
      // A newer daemon may send other events.
      return turn;
  }
}

/** Returns a turn that has failed. @param {Turn} turn @param {unknown} error @returns {Turn} */
export const failedTurn = (turn, error) => ({ ...stopped(withLastFinished(turn)), state: "failed", error });

/** @param {Turn} turn @param {Piece} piece @returns {Turn} */
const withPiece = (turn, piece) => ({ ...turn, pieces: [...turn.pieces, piece] });

/**
 * Adds text of a kind: to the last piece, if that is not finished.
 * @param {Turn} turn
 * @param {"text" | "thinking"} kind
 * @param {string} text
 * @returns {Turn}
 */
function written(turn, kind, text) {
  const last = turn.pieces.at(-1);
  if (last?.kind === kind && !last.whole)
    return { ...turn, pieces: [...turn.pieces.slice(0, -1), { ...last, text: last.text + text }] };
  return withPiece(withLastFinished(turn), { kind, id: `${turn.id}/${turn.pieces.length}`, text, whole: false });
}

/** Finishes the last piece of text. @param {Turn} turn @returns {Turn} */
function withLastFinished(turn) {
  const last = turn.pieces.at(-1);
  if (!last || last.kind === "call" || last.whole) return turn;
  return { ...turn, pieces: [...turn.pieces.slice(0, -1), { ...last, whole: true }] };
}

/** Marks the calls whose end was not reported as stopped. @param {Turn} turn @returns {Turn} */
function stopped(turn) {
  if (!turn.pieces.some(isRunning)) return turn;
  return {
    ...turn,
    pieces: turn.pieces.map((piece) =>
      isRunning(piece) ? { .../** @type {CallPiece} */ (piece), state: "stopped" } : piece,
    ),
  };
}

/** @param {Piece} piece */
const isRunning = (piece) => piece.kind === "call" && piece.state === "running";

/**
 * @param {Turn} turn
 * @param {{id: string, is_error: boolean, text?: string | null, duration_ms?: number | null}} data
 * @returns {Turn}
 */
function ended(turn, { id, is_error: isError, text, duration_ms: duration = null }) {
  const at = turn.pieces.findLastIndex(
    (piece) => piece.kind === "call" && piece.call === id && piece.state === "running",
  );
  if (at < 0) return turn;
  const call = /** @type {CallPiece} */ (turn.pieces[at]);
  return {
    ...turn,
    pieces: turn.pieces.with(at, { ...call, state: isError ? "failed" : "ok", text: text ?? "", duration }),
  };
}

/** @param {Turn} turn @param {Api.TurnEnd} end @returns {Turn} */
function withEnd(turn, end) {
  // The text of a model that does not stream comes with the end.
  const isSaid =
    turn.pieces.at(-1)?.kind === "text" ||
    turn.pieces.some((piece) => piece.kind === "text" && piece.text === end.text);
  const all = end.text && !isSaid ? written(turn, "text", end.text) : turn;
  return { ...stopped(withLastFinished(all)), state: "over", end };
}

/**
 * @param {string} id
 * @param {string} call
 * @param {string} name
 * @param {unknown} given
 * @param {number | null} began
 * @returns {CallPiece}
 */
function callFrom(id, call, name, given, began) {
  return {
    kind: "call",
    id,
    call,
    ...calledIn(name),
    arguments: given,
    state: "running",
    text: "",
    parts: [],
    duration: null,
    began,
  };
}

/**
 * Returns the server and the tool of a name, which is `server/tool` or the name that models see.
 * @param {string} name
 * @returns {{server: string | null, tool: string}}
 */
export function calledIn(name) {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? /^([^/]+)\/(.+)$/.exec(name) ?? [];
  return server ? { server, tool } : { server: null, tool: name };
}

/** Whether a turn waits for the model, without a text or a call that the user could watch. @param {Turn} turn */
export const isSilent = ({ state, pieces }) =>
  state === "running" && !pieces.some((piece) => isRunning(piece) || (piece.kind !== "call" && !piece.whole));

/**
 * Returns the turns of a stored conversation.
 * @param {Api.Message[]} messages
 * @returns {Turn[]}
 */
export function turnsOf(messages) {
  /** @type {Turn[]} */
  const turns = [];
  for (const message of messages) {
    if (message.role === "system") continue;
    if (message.role === "user" || turns.length === 0) turns.push({ ...newTurn(message.id, ""), state: "over" });
    const at = turns.length - 1;
    turns[at] = message.role === "user" ? { ...turns[at], text: message.content } : withMessage(turns[at], message);
  }
  return turns.map(stopped);
}

/** @param {Turn} turn @param {Api.Message} message @returns {Turn} */
function withMessage(turn, message) {
  if (message.role === "tool") {
    const next = ended(turn, {
      id: message.tool_call_id ?? "",
      is_error: message.is_error ?? false,
      text: message.content,
    });
    return {
      ...next,
      pieces: next.pieces.map((piece) =>
        piece.kind === "call" && piece.call === message.tool_call_id ? { ...piece, parts: message.parts ?? [] } : piece,
      ),
    };
  }
  const texts = message.content
    ? [/** @type {Piece} */ ({ kind: "text", id: message.id, text: message.content, whole: true })]
    : [];
  const calls = (message.tool_calls ?? []).map((call) =>
    callFrom(`${message.id}/${call.id}`, call.id, call.name, call.input, null),
  );
  return { ...turn, pieces: [...turn.pieces, ...texts, ...calls] };
}
