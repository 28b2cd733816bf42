// What the page shows of the controller: an answer that is read again when something has happened, as long as it is seen.
import {type Signal, signal} from "@preact/signals";
import {useEffect} from "preact/hooks";

import {Problem, read, readText} from "./ask";
import {listen, lost} from "./live";
import {session} from "./session";

/** How an answer is kept fresh. */
export interface Freshness {
  /** Whether it is read again at each event. Answers that make the controller ask switches are not. */
  readonly live?: boolean;
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
/** Reading takes at most one part of the time in so many. */
const SHARE = 4;
/** A list with live events is read again after this time as well: connections of switches are no event. */
export const SOON = 5000;

class Resource<T> {
  readonly answer: Signal<Answer<T>> = signal({data: undefined, problem: null});
  private readonly path: string;
  private readonly freshness: Freshness;
  private users = 0;
  private tag: string | null = null;
  private isReading = false;
  private isStale = false;
  /** When it may be read next. */
  private earliest = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private poll: ReturnType<typeof setTimeout> | undefined;
  private unlisten: (() => void) | undefined;

  constructor(path: string, freshness: Freshness) {
    this.path = path;
    this.freshness = freshness;
  }

  use(): () => void {
    this.users += 1;
    if (this.users === 1) {
      this.unlisten = listen((kind) => {
        if (kind === "all" || this.freshness.live === true) {
          this.refresh();
        }
      });
      this.refresh();
    }
    return () => {
      this.users -= 1;
      if (this.users === 0) {
        this.unlisten?.();
        clearTimeout(this.timer);
        clearTimeout(this.poll);
        this.timer = undefined;
      }
    };
  }

  /** Reports whether a part of the page shows it. */
  isUsed(): boolean {
    return this.users > 0;
  }

  /** Reads it as soon as may be. */
  refresh(): void {
    if (this.users === 0 || this.timer !== undefined) {
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
    this.isStale = false;
    const began = performance.now();
    try {
      if (this.freshness.text === true) {
        this.answer.value = {data: (await readText(this.path)) as T, problem: null};
      } else {
        const {tag, data} = await read<T>(this.path, this.freshness.always === true ? null : this.tag);
        this.tag = tag;
        if (data !== undefined || this.answer.value.problem !== null) {
          this.answer.value = {data: data ?? this.answer.value.data, problem: null};
        }
      }
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(0, String(error));
      this.answer.value = {data: this.answer.value.data, problem};
      if (problem.status === 0) {
        lost();
      }
    }
    const ended = performance.now();
    this.isReading = false;
    this.earliest = ended + Math.max(SPACING, (SHARE - 1) * (ended - began));
    clearTimeout(this.poll);
    if (this.users > 0 && this.freshness.every !== undefined) {
      this.poll = setTimeout(() => this.tick(), this.freshness.every);
    }
    if (this.isStale) {
      this.refresh();
    }
  }

  /** Reads it again, unless nobody looks. */
  private tick(): void {
    if (document.hidden) {
      document.addEventListener("visibilitychange", () => this.refresh(), {once: true});
    } else {
      this.refresh();
    }
  }
}

/** Answers that have been read lately, so that going back shows them at once. The oldest one that is not shown goes first. */
const resources = new Map<string, Resource<unknown>>();
const MOST = 64;

function resource<T>(path: string, freshness: Freshness): Resource<T> {
  const known = resources.get(path) as Resource<T> | undefined;
  if (known !== undefined) {
    return known;
  }
  const made = new Resource<T>(path, freshness);
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
  const own = path === null ? null : resource<T>(path, freshness);
  useEffect(() => own?.use(), [own]);
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
