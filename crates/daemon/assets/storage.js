// What the browser stores for this page. A browser may forbid that for this address, or have no room left. Then the page itself
// remembers, until it is closed.

/** @param {() => Storage} open returns the browser's storage, or throws where the browser forbids it */
function guarded(open) {
  /** What could not be stored. @type {Map<string, string>} */
  const remembered = new Map();
  return {
    /** @param {string} name @returns {string | null} */
    getItem(name) {
      const here = remembered.get(name) ?? null;
      try {
        return here ?? open().getItem(name);
      } catch {
        return here;
      }
    },
    /** @param {string} name @param {string} value */
    setItem(name, value) {
      remembered.delete(name);
      try {
        open().setItem(name, value);
      } catch {
        remembered.set(name, value);
      }
    },
    /** @param {string} name */
    removeItem(name) {
      remembered.delete(name);
      try {
        open().removeItem(name);
      } catch {
        // Nothing is stored where the browser forbids it.
      }
    },
  };
}

/** What all pages of this browser share, and what outlives them. */
export const lasting = guarded(() => localStorage);

/** What only this tab has, and what ends with it. */
export const ofTab = guarded(() => sessionStorage);
