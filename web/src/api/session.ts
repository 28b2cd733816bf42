// Who is asking: nobody in particular on a loopback without tokens, else the owner of a token, in a session.
import {computed, signal} from "@preact/signals";

/** What the role of a client allows; each allows what those before it do. */
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
/** What shows that a change comes from this page. */
export const csrf = computed(() => session.value?.csrf ?? null);

/** Reports whether who asks may do what needs this role. */
export function may(role: Role): boolean {
  const own = session.value?.role;
  return own !== undefined && ROLES.indexOf(own) >= ROLES.indexOf(role);
}

/** Notes that the session has ended. */
export function signedOut(): void {
  session.value = null;
}
