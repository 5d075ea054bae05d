// Data that a component fetches when it is shown.

import { useEffect, useState } from "../html.js";

/**
 * @template T
 * @typedef {object} Loaded
 * @property {T | null} data the last data; kept while it is fetched again
 * @property {unknown} error
 * @property {boolean} loading
 * @property {() => void} again
 */

/**
 * Fetches when the component appears and whenever `because` changes. A request that is no longer needed is aborted.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} fetchIt
 * @param {unknown[]} because
 * @returns {Loaded<T>}
 */
export function useLoaded(fetchIt, because) {
  const [state, setState] = useState(
    /** @type {{data: T | null, error: unknown, loading: boolean}} */ ({ data: null, error: null, loading: true }),
  );
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const ended = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    fetchIt(ended.signal).then(
      (data) => !ended.signal.aborted && setState({ data, error: null, loading: false }),
      (error) => !ended.signal.aborted && setState((old) => ({ ...old, error, loading: false })),
    );
    return () => ended.abort();
  }, [...because, turn]);
  return { ...state, again: () => setTurn((old) => old + 1) };
}

/**
 * The action of a button, with whether it is running, and the error of the last run.
 * @template {unknown[]} A
 * @template R
 * @param {(...given: A) => Promise<R>} doIt
 */
export function useAction(doIt) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const run = async (/** @type {A} */ ...given) => {
    setBusy(true);
    setError(null);
    try {
      return await doIt(...given);
    } catch (problem) {
      setError(problem);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, run, clear: () => setError(null) };
}
