// Text that grows at its end: the page follows it, unless the reader scrolled up.

import { useEffect, useRef, useState } from "../html.js";

/** The distance that still counts as the end. In pixels. */
const NEAR = 60;

const isAtEnd = () => {
  const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
  return scrollHeight - clientHeight - scrollTop < NEAR;
};

const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });

/** Returns whether the reader is at the end of the page, and a function that scrolls there. */
export function useEnd() {
  const [isThere, setIsThere] = useState(true);
  const follows = useRef(true);
  useEffect(() => {
    const over = new AbortController();
    let last = document.documentElement.scrollTop;
    const look = () => {
      const { scrollTop } = document.documentElement;
      // More text may have arrived since the page scrolled to the end. Only a reader who scrolled up is left alone.
      if (isAtEnd()) follows.current = true;
      else if (scrollTop < last) follows.current = false;
      last = scrollTop;
      setIsThere(isAtEnd());
    };
    // A user who opens something wants to see it, and not the end of the page.
    const onClick = (/** @type {Event} */ { target }) => {
      if (target instanceof Element && target.closest("summary")) follows.current = false;
    };
    addEventListener("click", onClick, { signal: over.signal });
    // New text moves the end away from a reader who has not scrolled. Only scrolling changes whether the page follows.
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
