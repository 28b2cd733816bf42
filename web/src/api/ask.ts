// Asks the API, and tells why it refused in its own words.
import {csrf, signedOut} from "./session";

/** A refusal, or that no answer came. */
export class Problem extends Error {
  /** The status of HTTP; 0 where no answer came. */
  readonly status: number;
  /** The wrong part of the request, if one is. */
  readonly field: string;

  constructor(status: number, detail: string, field = "") {
    super(detail);
    this.status = status;
    this.field = field;
  }
}

/** An answer with the tag that tells whether it has changed. */
export interface Tagged<T> {
  readonly tag: string | null;
  /** What the answer says; `undefined` if it is the one that has been read already. */
  readonly data: T | undefined;
}

async function sent(path: string, request: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {cache: "no-store", credentials: "same-origin", ...request});
  } catch {
    throw new Problem(0, "the controller does not answer");
  }
  if (response.ok || response.status === 304) {
    return response;
  }
  const problem = await refusal(response);
  if (problem.status === 401 && path !== "/v1/session") {
    signedOut();
  }
  throw problem;
}

async function refusal(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const {detail, field} = JSON.parse(text) as {detail: string; field?: string};
    return new Problem(response.status, detail, field);
  } catch {
    return new Problem(response.status, text.slice(0, 300) || `${response.status} ${response.statusText}`);
  }
}

/** Reads a path, unless its answer still has this tag. The signal ends that. */
export async function read<T>(path: string, tag: string | null = null, signal?: AbortSignal): Promise<Tagged<T>> {
  const response = await sent(path, {...(tag === null ? {} : {headers: {"If-None-Match": tag}}), ...(signal === undefined ? {} : {signal})});
  const data = response.status === 304 ? undefined : ((await response.json()) as T);
  return {tag: response.headers.get("ETag"), data};
}

/** Reads a path as text. The signal ends that. */
export async function readText(path: string, signal?: AbortSignal): Promise<string> {
  return (await sent(path, signal === undefined ? {} : {signal})).text();
}

/** Sends a request that may change something, and returns its answer. */
export async function send<T>(method: "POST" | "PUT" | "DELETE", path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = {};
  const shown = csrf();
  if (shown !== null) {
    headers["X-CSRF-Token"] = shown;
  }
  if (body === undefined) {
    const response = await sent(path, {method, headers});
    const text = await response.text();
    return (text === "" ? null : JSON.parse(text)) as T;
  }
  headers["Content-Type"] = "application/json";
  return (await sent(path, {method, headers, body: JSON.stringify(body)})).json() as Promise<T>;
}
