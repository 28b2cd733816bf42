// Asks the API, and tells why it refused in its own words.
import {csrf, signedOut} from "./session";

/** The longest time without a word of the controller, in milliseconds. Its events come after 15 seconds at the latest. */
export const SILENCE = 35_000;
/** The status of an answer that does not come in time. */
const LATE = 504;

/** A refusal, or that no answer came. */
export class Problem extends Error {
  /** The status of HTTP; 0 where there is no connection. */
  readonly status: number;
  /** The wrong part of the request, if one is. */
  readonly field: string;
  /** After what time to ask again, in milliseconds, if the controller has said that. */
  readonly after: number | null;

  constructor(status: number, detail: string, field = "", after: number | null = null) {
    super(detail);
    this.status = status;
    this.field = field;
    this.after = after;
  }
}

/** An answer with the tag that tells whether it has changed. */
export interface Tagged<T> {
  readonly tag: string | null;
  /** The content of the answer; `undefined` if it is the one that has been read already. */
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
  const seconds = response.headers.get("Retry-After") ?? "";
  const after = /^\d{1,4}$/.test(seconds) ? Number(seconds) * 1000 : null;
  try {
    const {detail, field} = JSON.parse(text) as {detail: string; field?: string};
    return new Problem(response.status, detail, field, after);
  } catch {
    return new Problem(response.status, text.slice(0, 300) || `${response.status} ${response.statusText}`, "", after);
  }
}

/** Reads a path, unless its answer still has this tag. The signal ends that, and so does silence. */
export async function read<T>(path: string, tag: string | null = null, signal?: AbortSignal): Promise<Tagged<T>> {
  const {response, text} = await heard(path, tag === null ? {} : {headers: {"If-None-Match": tag}}, signal);
  return {tag: response.headers.get("ETag"), data: response.status === 304 ? undefined : (JSON.parse(text) as T)};
}

/** Reads a path as text. The signal ends that, and so does silence. */
export async function readText(path: string, signal?: AbortSignal): Promise<string> {
  return (await heard(path, {}, signal)).text;
}

/** Reads a path to its end, which may take long as long as something comes. */
async function heard(path: string, request: RequestInit, signal: AbortSignal | undefined): Promise<{readonly response: Response; readonly text: string}> {
  const own = new AbortController();
  signal?.addEventListener("abort", () => own.abort(), {signal: own.signal});
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isLate = false;
  const hear = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      isLate = true;
      own.abort();
    }, SILENCE);
  };
  hear();
  try {
    const response = await sent(path, {...request, signal: own.signal});
    const [reader, decoder] = [response.body?.getReader(), new TextDecoder()];
    let text = "";
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      hear();
      text += decoder.decode(part.value, {stream: true});
    }
    return {response, text: text + decoder.decode()};
  } catch (error) {
    throw isLate ? new Problem(LATE, `the controller says nothing to ${path.replace(/\?.*/, "")} for ${SILENCE / 1000} seconds`) : error;
  } finally {
    clearTimeout(timer);
    own.abort();
  }
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
