// Why a server is in its state. Pure.

/**
 * Returns why a server is in its state, in one line; null if there is no reason to show.
 * @param {Api.Server} server
 * @param {number} now by the daemon's clock, in ms since 1970
 */
export function reasonOf(server, now) {
  const { state, error, how, attempt, attempts, retry_at: at } = server;
  if (state === "reconnecting") {
    const tries = attempt ? `attempt ${attempt}${attempts ? ` of ${attempts}` : ""}` : "";
    const left = at ? Math.ceil((Date.parse(at) - now) / 1000) : Number.NaN;
    const next = Number.isNaN(left) ? "" : left > 0 ? `next in ${left} s` : "next now";
    return [error, [tries, next].filter(Boolean).join(", ")].filter(Boolean).join(" · ");
  }
  if (state === "needs_auth") return how ?? error ?? "sign in to use it";
  if (state === "broken")
    return error ?? "its entry cannot be used as it is written: the problems of the configuration say why";
  if (state === "pending_trust") return "its project's file asks to run it: nothing runs before you agree";
  return error ?? null;
}
