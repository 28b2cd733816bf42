// What the page hears of the controller as it happens: events that say that something is to be read again.
import {signal} from "@preact/signals";

import {Problem, read, send, SILENCE} from "./ask";
import {csrf, type Session, session, signedIn, signedOut} from "./session";

/** A line of the log. */
export interface LogLine {
  readonly number: number;
  readonly time: number;
  readonly level: "error" | "warning" | "info" | "debug";
  readonly area: string;
  readonly text: string;
}

/** Whether events come; without them, the moment of which the page knows the controller last, in milliseconds since 1970. */
export const connection = signal<{readonly live: boolean; readonly since: number}>({live: false, since: Date.now()});

type Listener = (kind: "state" | "log" | "all") => void;
const listeners = new Set<Listener>();

/** The time that the page waits before it tries again, in milliseconds: it doubles up to the second. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;

let source: EventSource | null = null;
/** The number of the latest attempt; earlier ones are given up. */
let attempt = 0;
let wait = FIRST_WAIT;
let again: ReturnType<typeof setTimeout> | undefined;
let silence: ReturnType<typeof setTimeout> | undefined;

/** Calls a listener for each event. Returns what ends that. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(kind: "state" | "log" | "all"): void {
  for (const listener of listeners) {
    listener(kind);
  }
}

/**
 * Follows the controller from now on, as long as the page is seen. A page that is hidden has no stream of events: each takes
 * a connection, and of those a browser has six to a server for all its pages.
 */
export async function begin(): Promise<void> {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      const {live, since} = connection.value;
      close();
      attempt += 1;
      connection.value = {live: false, since: live ? Date.now() : since};
    } else {
      wait = FIRST_WAIT;
      void connect();
    }
  });
  await connect();
}

/** Ends the stream of events, and no further attempt follows. */
function close(): void {
  clearTimeout(again);
  clearTimeout(silence);
  source?.close();
  source = null;
}

/** Asks who this is, and follows events from then on if the page is seen. Tries again until it can. */
async function connect(): Promise<void> {
  close();
  attempt += 1;
  const mine = attempt;
  try {
    const who = (await read<Session>("/v1/session")).data ?? null;
    if (mine !== attempt) {
      return;
    }
    if (who !== null && who.name !== null && csrf() === null) {
      // The session is that of another place: nothing shows that this page began it.
      signedOut();
      return;
    }
    session.value = who;
  } catch (error) {
    if (mine !== attempt) {
      return;
    }
    if (error instanceof Problem && error.status === 401) {
      signedOut();
    } else {
      retry(Date.now());
    }
    return;
  }
  if (document.hidden) {
    return;
  }
  const own = new EventSource("/v1/events");
  source = own;
  own.onerror = () => {
    if (source === own) {
      lost();
    }
  };
  let heard = Date.now();
  const hear = () => {
    heard = Date.now();
    clearTimeout(silence);
    // A controller that is stopped, or behind a way that leads nowhere any more, closes nothing.
    silence = setTimeout(() => {
      close();
      retry(heard);
    }, SILENCE);
  };
  hear();
  for (const kind of ["begin", "missed", "state", "log", "alive"]) {
    own.addEventListener(kind, hear);
  }
  own.addEventListener("begin", () => {
    wait = FIRST_WAIT;
    connection.value = {live: true, since: Date.now()};
    // What came while there were no events is not known.
    tell("all");
  });
  own.addEventListener("missed", () => tell("all"));
  own.addEventListener("state", () => tell("state"));
  own.addEventListener("log", () => tell("log"));
}

/** Notes that the server is not there, and tries until it is. */
export function lost(): void {
  if (source !== null) {
    close();
    retry(Date.now());
  }
}

/** Tries again after a while. What the page shows is of that moment, or older if events did not come before. */
function retry(since: number): void {
  if (connection.value.live) {
    connection.value = {live: false, since};
  }
  if (document.hidden) {
    return;
  }
  again = setTimeout(() => void connect(), wait);
  wait = Math.min(2 * wait, LONGEST_WAIT);
}

/** Begins a session with a token. */
export async function signIn(token: string): Promise<void> {
  signedIn(await send<Session>("POST", "/v1/session", {token}));
  await connect();
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  await send("DELETE", "/v1/session");
  close();
  signedOut();
}
