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
    const look = () => {
      follows.current = isAtEnd();
      setIsThere(follows.current);
    };
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
