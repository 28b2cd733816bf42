// Which part of something long is seen.
import type {RefObject} from "preact";
import {useLayoutEffect, useState} from "preact/hooks";

/** The part of a scrolled element that is seen, in pixels. */
export interface Seen {
  readonly top: number;
  readonly height: number;
}

/** Follows what is seen of an element. */
export function useSeen(scroller: RefObject<HTMLElement>): Seen {
  const [seen, setSeen] = useState<Seen>({top: 0, height: 800});
  useLayoutEffect(() => {
    const own = scroller.current;
    if (own === null) {
      return;
    }
    const look = () => setSeen((before) => {
      const now = {top: own.scrollTop, height: own.clientHeight};
      return before.top === now.top && before.height === now.height ? before : now;
    });
    const observer = new ResizeObserver(look);
    observer.observe(own);
    own.addEventListener("scroll", look, {passive: true});
    return () => {
      observer.disconnect();
      own.removeEventListener("scroll", look);
    };
  }, []);
  return seen;
}
