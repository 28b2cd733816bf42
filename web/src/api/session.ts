// Who is asking: nobody in particular on a loopback without tokens, else the owner of a token, in a session.
import {signal} from "@preact/signals";

/** The rights of a client's role; each allows what those before it do. */
export const ROLES = ["read", "state", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** The answer about who asks. */
export interface Session {
  readonly name: string | null;
  readonly role: Role;
  readonly csrf: string | null;
}

/** `undefined` until it is known; `null` where a token is needed. */
export const session = signal<Session | null | undefined>(undefined);
/** The place where the page keeps what shows that a change comes from it. Pages of other ports can't read that. */
const KEPT = "maple-csrf";

/** Returns what shows that a change comes from this page; `null` without a session. */
export function csrf(): string | null {
  return localStorage.getItem(KEPT);
}

/** Keeps what the answer to the sign-in has. */
export function signedIn({csrf}: Session): void {
  if (csrf !== null) {
    localStorage.setItem(KEPT, csrf);
  }
}

/** Reports whether who asks may do what needs this role. */
export function may(role: Role): boolean {
  const own = session.value?.role;
  return own !== undefined && ROLES.indexOf(own) >= ROLES.indexOf(role);
}

/** Notes that the session has ended. */
export function signedOut(): void {
  localStorage.removeItem(KEPT);
  session.value = null;
}
