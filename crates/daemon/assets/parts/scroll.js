// Text that grows at its end: the page follows it, unless the reader scrolled up.

import { useEffect, useRef, useState } from "../html.js";

/** So near the end counts as the end. In pixels. */
const NEAR = 60;

const isAtEnd = () => {
  const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
  return scrollHeight - clientHeight - scrollTop < NEAR;
};

const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });

/** Whether the reader is at the end of the page, and the way there. */
export function useEnd() {
  const [isThere, setIsThere] = useState(true);
  const follows = useRef(true);
  useEffect(() => {
    const over = new AbortController();
    let last = document.documentElement.scrollTop;
    const look = () => {
      const { scrollTop } = document.documentElement;
      // More may have come since we went to the end: only who went up does not want to be taken along.
      if (isAtEnd()) follows.current = true;
      else if (scrollTop < last) follows.current = false;
      last = scrollTop;
      setIsThere(isAtEnd());
    };
    // Who opens something wants to see it, not what is below it.
    const onClick = (/** @type {Event} */ { target }) => {
      if (target instanceof Element && target.closest("summary")) follows.current = false;
    };
    addEventListener("click", onClick, { signal: over.signal });
    // Text that comes moves the end away from the reader, who did not scroll: only scrolling changes whether we follow.
    const grown = new ResizeObserver(() => (follows.current ? toEnd() : setIsThere(isAtEnd())));
    grown.observe(document.querySelector("main") ?? document.body);
    addEventListener("scroll", look, { signal: over.signal, passive: true });
    return () => {
      over.abort();
      grown.disconnect();
    };
  }, []);
  const go = () => {
    follows.current = true;
    setIsThere(true);
    toEnd();
  };
  return { isThere, go };
}
