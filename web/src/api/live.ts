// What the page hears of the controller as it happens: events that say that something is to be read again.
import {signal} from "@preact/signals";

import {Problem, read, send} from "./ask";
import {csrf, type Session, session, signedIn, signedOut} from "./session";

/** A line of the log. */
export interface LogLine {
  readonly number: number;
  readonly time: number;
  readonly level: "error" | "warning" | "info" | "debug";
  readonly area: string;
  readonly text: string;
}

/** Whether events come; since when they do not. */
export const connection = signal<{readonly live: boolean; readonly since: number}>({live: false, since: Date.now()});

type Listener = (kind: "state" | "log" | "all") => void;
const listeners = new Set<Listener>();

/** How long the page waits before it tries again, in milliseconds: it doubles up to the second. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;

let source: EventSource | null = null;
/** The number of the latest attempt; earlier ones are given up. */
let attempt = 0;
let wait = FIRST_WAIT;

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

/** Asks who this is, and follows events from then on. Tries again until it can. */
export async function connect(): Promise<void> {
  source?.close();
  source = null;
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
      retry();
    }
    return;
  }
  const own = new EventSource("/v1/events");
  source = own;
  own.onerror = () => {
    if (source === own) {
      lost();
    }
  };
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
    source.close();
    source = null;
    retry();
  }
}

function retry(): void {
  if (connection.value.live) {
    connection.value = {live: false, since: Date.now()};
  }
  setTimeout(() => void connect(), wait);
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
  source?.close();
  source = null;
  signedOut();
}
