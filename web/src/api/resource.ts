// What the page shows of the controller: an answer that is read again when something has happened, as long as it is seen.
import {type Signal, signal} from "@preact/signals";
import {useEffect} from "preact/hooks";

import {Problem, read, readText} from "./ask";
import {listen, lost} from "./live";
import {session} from "./session";

/** The way in which an answer is kept fresh. */
export interface Freshness {
  /** Whether it is read again at each event, or only when tracked state has changed. Answers that make the controller ask switches are not. */
  readonly live?: boolean | "state";
  /** The time after which it is read again anyway, in milliseconds. */
  readonly every?: number;
  /** Whether each reading counts, also one that finds the same: rates need that. */
  readonly always?: boolean;
  /** Whether it is text and not JSON. */
  readonly text?: boolean;
}

/** An answer as it was read last. */
export interface Answer<T> {
  /** `undefined` until it has been read. */
  readonly data: T | undefined;
  /** Why the last attempt failed. The data are those of the attempt before. */
  readonly problem: Problem | null;
}

/** The shortest time between two readings, in milliseconds. */
const SPACING = 100;
/** Divisor of the time of which reading takes at most one part. */
const SHARE = 4;
/** The number of answers that are not live and are read at a time. Browsers have six connections to a server: events take one, and live answers find another. */
const SLOW = 3;
/** The time after which what the controller could not answer is read again if it did not say when, in milliseconds. */
const TROUBLED = 5000;
/** A list with live events is read again after this time as well: connections of switches are not events. */
export const SOON = 5000;
/** The freshness of tracked state: lines of the log do not change it, and another policy with other tables is seen soon. */
export const TRACKED: Freshness = {live: "state", every: SOON};

/** The freshness that is enough for all of these. */
export function freshest(all: Iterable<Freshness>): Freshness {
  let live: boolean | "state" = false;
  let [always, text, every] = [false, false, Infinity];
  for (const one of all) {
    live = live === true || one.live === true || live || one.live || false;
    always ||= one.always === true;
    text ||= one.text === true;
    every = Math.min(every, one.every ?? Infinity);
  }
  return {live, always, text, ...(every === Infinity ? {} : {every})};
}

/** Turns to read, of which there are few. What waits is read in the order in which it came. */
class Turns {
  private free: number;
  private readonly waiting: (() => void)[] = [];

  constructor(most: number) {
    this.free = most;
  }

  /** Waits for a turn. */
  async take(): Promise<void> {
    if (this.free > 0) {
      this.free -= 1;
    } else {
      await new Promise<void>((turn) => this.waiting.push(turn));
    }
  }

  /** Gives a turn back. */
  end(): void {
    const next = this.waiting.shift();
    if (next === undefined) {
      this.free += 1;
    } else {
      next();
    }
  }
}

/** The turns of answers that are not live: switches may take seconds for them. */
const slow = new Turns(SLOW);

/** An answer of one path, for all parts of the page that show it. */
export class Resource<T> {
  readonly answer: Signal<Answer<T>> = signal({data: undefined, problem: null});
  private readonly path: string;
  /** The wishes of those who show it. */
  private readonly users = new Set<Freshness>();
  private tag: string | null = null;
  private isReading = false;
  private isStale = false;
  /** When it may be read next. */
  private earliest = 0;
  /** The duration of the latest reading, in milliseconds. */
  private took = 0;
  /** Ends the reading of what nobody shows any more, if it may take long. */
  private given: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private poll: ReturnType<typeof setTimeout> | undefined;
  private unlisten: (() => void) | undefined;

  constructor(path: string) {
    this.path = path;
  }

  /** Keeps it as fresh as this user wants, until what it returns is called. */
  use(wanted: Freshness): () => void {
    const own = {...wanted};
    this.users.add(own);
    if (this.users.size === 1) {
      this.unlisten = listen((kind) => {
        const {live} = freshest(this.users);
        if (kind === "all" || live === true || live === kind) {
          this.refresh();
        }
      });
      this.refresh();
    } else if (own.every !== undefined && !this.isReading) {
      this.pollAgain();
    }
    return () => {
      this.users.delete(own);
      if (this.users.size === 0) {
        this.unlisten?.();
        clearTimeout(this.timer);
        clearTimeout(this.poll);
        this.timer = undefined;
        this.given?.abort();
      } else if (!this.isReading) {
        this.pollAgain();
      }
    };
  }

  /** Reports whether a part of the page shows it. */
  isUsed(): boolean {
    return this.users.size > 0;
  }

  /** Reads it as soon as may be; what is known already, not before somebody looks. */
  refresh(): void {
    if (this.users.size === 0 || this.timer !== undefined) {
      return;
    }
    if (document.hidden && this.answer.peek().data !== undefined) {
      // The same listener each time: a page that is hidden for days adds it once.
      document.addEventListener("visibilitychange", this.onSeen, {once: true});
      return;
    }
    if (this.isReading) {
      this.isStale = true;
      return;
    }
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.read();
    }, Math.max(0, this.earliest - performance.now()));
  }

  private async read(): Promise<void> {
    if (session.value === null) {
      return;
    }
    this.isReading = true;
    const isSlow = freshest(this.users).live === false;
    if (isSlow) {
      await slow.take();
    }
    if (this.users.size > 0) {
      await this.readNow(isSlow);
    }
    if (isSlow) {
      slow.end();
    }
    this.isReading = false;
    this.pollAgain();
    if (this.isStale) {
      this.refresh();
    }
  }

  private async readNow(isSlow: boolean): Promise<void> {
    this.isStale = false;
    const own = isSlow ? new AbortController() : undefined;
    this.given = own;
    const began = performance.now();
    let rest = 0;
    const {always, text} = freshest(this.users);
    try {
      if (text === true) {
        this.answer.value = {data: (await readText(this.path, own?.signal)) as T, problem: null};
      } else {
        const {tag, data} = await read<T>(this.path, always === true ? null : this.tag, own?.signal);
        this.tag = tag;
        if (data !== undefined || this.answer.value.problem !== null) {
          this.answer.value = {data: data ?? this.answer.value.data, problem: null};
        }
      }
    } catch (error) {
      if (own?.signal.aborted === true) {
        return;
      }
      const problem = error instanceof Problem ? error : new Problem(0, String(error));
      this.answer.value = {data: this.answer.value.data, problem};
      if (problem.status === 0) {
        lost();
      } else if (problem.after !== null || problem.status >= 500) {
        // No event may tell that it can be read by now.
        rest = problem.after ?? TROUBLED;
        this.isStale = true;
      }
    }
    const [ended, before] = [performance.now(), this.took];
    this.took = ended - began;
    // The shorter one of two: a reading that something else has delayed says nothing of what reading costs.
    this.earliest = ended + Math.max(SPACING, (SHARE - 1) * Math.min(this.took, before), rest);
  }

  /** Waits for the time after which it is read again. */
  private pollAgain(): void {
    clearTimeout(this.poll);
    const {every} = freshest(this.users);
    if (this.users.size > 0 && every !== undefined) {
      this.poll = setTimeout(() => this.refresh(), every);
    }
  }

  private readonly onSeen = (): void => this.refresh();
}

/** Answers that have been read lately, so that going back shows them at once. The oldest one that is not shown goes first. */
const resources = new Map<string, Resource<unknown>>();
const MOST = 64;

function resource<T>(path: string): Resource<T> {
  const known = resources.get(path) as Resource<T> | undefined;
  if (known !== undefined) {
    return known;
  }
  const made = new Resource<T>(path);
  resources.set(path, made as Resource<unknown>);
  if (resources.size > MOST) {
    const oldest = [...resources].find(([other, one]) => other !== path && !one.isUsed());
    if (oldest !== undefined) {
      resources.delete(oldest[0]);
    }
  }
  return made;
}

/** Reads a path for as long as a part of the page shows it; nothing without a path. */
export function useAnswer<T>(path: string | null, freshness: Freshness = {}): Answer<T> {
  const own = path === null ? null : resource<T>(path);
  const {live, every, always, text} = freshness;
  useEffect(() => own?.use(freshness), [own, live, every, always, text]);
  return own === null ? NOTHING : own.answer.value;
}

const NOTHING: Answer<never> = {data: undefined, problem: null};

/** Reads these paths again, after a change that this page has made. */
export function refresh(beginning: string): void {
  for (const [path, one] of resources) {
    if (path.startsWith(beginning)) {
      one.refresh();
    }
  }
}
