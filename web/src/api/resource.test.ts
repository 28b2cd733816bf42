// Tests of how answers are kept fresh: by whom, when, and without keeping each other waiting.
import {afterEach, beforeEach, expect, test, vi} from "vitest";

import {SILENCE} from "./ask";
import {begin, connection} from "./live";
import {freshest, Resource, SOON, TRACKED} from "./resource";

/** A request that waits for its answer. */
interface Asked {
  readonly path: string;
  readonly signal: AbortSignal | undefined;
  answer: (data: unknown, response?: ResponseInit) => Promise<void>;
}

class Source extends EventTarget {
  static readonly open = new Set<Source>();
  onerror: unknown = null;
  constructor() {
    super();
    Source.open.add(this);
  }
  close(): void {
    Source.open.delete(this);
  }
}

/** A document of which a test says whether it is seen. */
class Seen extends EventTarget {
  hidden = false;
  readonly listeners = new Set<unknown>();
  override addEventListener(type: string, listener: EventListener | null, options?: AddEventListenerOptions): void {
    this.listeners.add(listener);
    super.addEventListener(type, listener, options);
  }

  /** Hides the page, or shows it again. */
  async hide(hidden: boolean): Promise<void> {
    this.hidden = hidden;
    this.dispatchEvent(new Event("visibilitychange"));
    await vi.advanceTimersByTimeAsync(0);
  }
}

const SESSION = {name: null, role: "read", csrf: null};

let asked: Asked[];
let page: Seen;
let used: (() => void)[];
/** The answer that says that the controller is alive. */
let pulse: ReturnType<typeof setInterval>;

beforeEach(async () => {
  vi.useFakeTimers();
  [asked, page, used] = [[], new Seen(), []];
  vi.stubGlobal("document", page);
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("localStorage", {getItem: () => null, removeItem: () => undefined});
  vi.stubGlobal("fetch", (path: string, {signal}: RequestInit) => new Promise<Response>((done, fail) => {
    signal?.addEventListener("abort", () => fail(new DOMException("given up", "AbortError")));
    asked.push({path, signal: signal ?? undefined, answer: async (data, response) => {
      done(new Response(JSON.stringify(data), response));
      await vi.advanceTimersByTimeAsync(0);
    }});
  }));
  Source.open.clear();
  const connected = begin();
  await asked.pop()?.answer(SESSION);
  await connected;
  pulse = setInterval(() => tell("alive"), 15_000);
});

afterEach(() => {
  used.forEach((end) => end());
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** Shows an answer. Returns what ends that. */
function use(one: Resource<unknown>, ...[wanted]: Parameters<Resource<unknown>["use"]>): () => void {
  const end = one.use(wanted);
  used.push(end);
  return end;
}

/** Answers the request that waits, after some time. What follows a timer at once comes a millisecond later. */
async function answerAfter(time: number, data: unknown = {}): Promise<void> {
  await vi.advanceTimersByTimeAsync(time + 1);
  await asked[asked.length - 1]?.answer(data);
}

function tell(kind: "begin" | "state" | "log" | "alive"): void {
  Source.open.forEach((source) => source.dispatchEvent(new Event(kind)));
}

async function event(kind: "begin" | "state" | "log"): Promise<void> {
  tell(kind);
  await vi.advanceTimersByTimeAsync(0);
}

/** Answers the one who asks who this is. */
async function answerSession(): Promise<void> {
  const latest = asked.pop();
  expect(latest?.path).toBe("/v1/session");
  await latest?.answer(SESSION);
}

test("an answer is as fresh as the one who wants it freshest, whoever comes first", () => {
  const [seldom, live, often, state] = [{every: 30_000}, {live: true}, {every: 5000, always: true}, {live: "state"}] as const;
  for (const all of [[seldom, live, often, state], [often, state, live, seldom], [live, often, seldom, state]]) {
    expect(freshest(all)).toEqual({live: true, always: true, text: false, every: 5000});
  }
  expect(freshest([live])).toEqual({live: true, always: false, text: false});
  expect(freshest([seldom, state])).toEqual({live: "state", always: false, text: false, every: 30_000});
  expect(freshest([])).toEqual({live: false, always: false, text: false});
});

test("who wants an answer again and again gets that also if others showed it first, for as long as that is shown", async () => {
  const one = new Resource("/v1/policy");
  use(one, {});
  await answerAfter(0);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.length).toBe(1);

  const end = use(one, {every: 10_000});
  await vi.advanceTimersByTimeAsync(9999);
  expect(asked.length).toBe(1);
  await answerAfter(1);
  expect(asked.length).toBe(2);
  await answerAfter(10_000);
  expect(asked.length).toBe(3);

  end();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.length).toBe(3);
});

test("tracked state is read again when it changes, not at lines of the log, and soon in any case", async () => {
  const one = new Resource("/v1/state");
  use(one, TRACKED);
  await answerAfter(0);
  await vi.advanceTimersByTimeAsync(1000);
  await event("log");
  expect(asked.length).toBe(1);
  await event("state");
  expect(asked.length).toBe(2);
  await answerAfter(0);
  await answerAfter(SOON);
  expect(asked.length).toBe(3);
  use(one, {live: true});
  await vi.advanceTimersByTimeAsync(1000);
  await event("log");
  expect(asked.length, "another part of the page wants more").toBe(4);
});

test("a page that is hidden for days asks nothing and holds no connection, and reads what it shows when it is seen", async () => {
  const [live, polled, state] = [new Resource("/v1/hosts"), new Resource("/v1/rules"), new Resource("/v1/names")];
  use(live, {live: true, every: SOON});
  await answerAfter(0);
  use(polled, {every: 10_000});
  await answerAfter(0);
  use(state, {live: "state"});
  await answerAfter(0);
  await event("begin");
  for (const path of ["/v1/hosts", "/v1/rules", "/v1/names"]) {
    await vi.advanceTimersByTimeAsync(100);
    await asked.findLast((one) => one.path === path)?.answer({});
  }
  asked.length = 0;
  expect(Source.open.size).toBe(1);
  const [seen, before] = [Date.now(), page.listeners.size];
  await page.hide(true);
  expect(Source.open.size).toBe(0);
  for (let hour = 0; hour < 48; hour += 1) {
    await vi.advanceTimersByTimeAsync(3_600_000);
  }
  expect(asked).toEqual([]);
  expect(page.listeners.size - before, "one of each answer that is read from time to time").toBe(2);
  await page.hide(false);
  expect(connection.value, "what it shows is old").toEqual({live: false, since: seen});
  const [session, hosts, rules] = asked.splice(0);
  expect([session?.path, hosts?.path, rules?.path]).toEqual(["/v1/session", "/v1/hosts", "/v1/rules"]);
  await hosts?.answer({});
  await rules?.answer({});
  await session?.answer(SESSION);
  expect(Source.open.size).toBe(1);
  await event("begin");
  expect(connection.value.live).toBe(true);
  await vi.advanceTimersByTimeAsync(100);
  expect(asked.map(({path}) => path).sort(), "what came meanwhile is not known").toEqual(["/v1/hosts", "/v1/names", "/v1/rules"]);
  for (const one of asked.splice(0)) {
    await one.answer({});
  }
  await vi.advanceTimersByTimeAsync(SOON + 1);
  expect(asked.map(({path}) => path), "it goes on as before").toEqual(["/v1/hosts"]);
});

test("a page that is hidden while it tries to connect does not try on, and one that is seen for a moment holds one stream", async () => {
  Source.open.forEach((source) => (source.onerror as () => void)());
  await page.hide(true);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(asked.length).toBe(0);
  await page.hide(false);
  await page.hide(true);
  await page.hide(false);
  const sessions = asked.splice(0);
  expect(sessions.map(({path}) => path)).toEqual(["/v1/session", "/v1/session"]);
  for (const one of sessions) {
    await one.answer(SESSION);
  }
  expect(Source.open.size).toBe(1);
  await page.hide(true);
  expect(Source.open.size).toBe(0);
});

test("a controller without a word for longer than between two events is lost, and the page tries again until it is there", async () => {
  await event("begin");
  await vi.advanceTimersByTimeAsync(10 * 15_000);
  clearInterval(pulse);
  await event("log");
  const heard = Date.now();
  await vi.advanceTimersByTimeAsync(SILENCE - 1);
  expect(connection.value.live).toBe(true);
  await vi.advanceTimersByTimeAsync(1);
  expect(connection.value).toEqual({live: false, since: heard});
  expect(Source.open.size).toBe(0);
  // Neither who asks who this is hears anything.
  await vi.advanceTimersByTimeAsync(500);
  expect(asked.map(({path}) => path)).toEqual(["/v1/session"]);
  await vi.advanceTimersByTimeAsync(SILENCE + 1000);
  expect(asked[0]?.signal?.aborted).toBe(true);
  expect(asked.length).toBe(2);
  await answerSession();
  await vi.advanceTimersByTimeAsync(SILENCE);
  expect(connection.value.live, "a stream that does not begin").toBe(false);
  expect(Source.open.size).toBe(0);
  await vi.advanceTimersByTimeAsync(2000);
  await answerSession();
  await event("begin");
  expect(connection.value.live).toBe(true);
});

test("an answer that does not come is a problem and keeps nothing from coming; one that comes slowly is read to its end", async () => {
  const [one, other] = [new Resource("/v1/rules"), new Resource("/v1/tables")];
  use(one, {live: "state"});
  await vi.advanceTimersByTimeAsync(SILENCE + 1);
  expect(asked[0]?.signal?.aborted).toBe(true);
  expect(one.answer.value).toMatchObject({data: undefined, problem: {status: 504, message: "the controller says nothing to /v1/rules for 35 seconds"}});
  await vi.advanceTimersByTimeAsync(SOON);
  expect(asked.length, "it is asked again").toBe(2);
  await answerAfter(0, {rows: []});
  expect(one.answer.value).toEqual({data: {rows: []}, problem: null});

  let write: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({start: (own) => void (write = own)});
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(body)));
  use(other, {live: true});
  for (const part of ['{"rows"', ":[", "]}"]) {
    await vi.advanceTimersByTimeAsync(SILENCE - 1);
    write?.enqueue(new TextEncoder().encode(part));
  }
  write?.close();
  await vi.advanceTimersByTimeAsync(0);
  expect(other.answer.value).toEqual({data: {rows: []}, problem: null});
});

test("what the controller could not answer is read again when it says, without an event", async () => {
  const one = new Resource("/v1/hosts");
  use(one, {live: true});
  await vi.advanceTimersByTimeAsync(1);
  await asked[0]?.answer({detail: "a worker is late"}, {status: 503, headers: {"Retry-After": "3"}});
  expect(one.answer.value.problem?.message).toBe("a worker is late");
  await event("state");
  await vi.advanceTimersByTimeAsync(2999);
  expect(asked.length, "not before").toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(asked.length).toBe(2);
  await asked[1]?.answer({detail: "no luck"}, {status: 500});
  await answerAfter(SOON);
  expect(one.answer.value).toEqual({data: {}, problem: null});
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(asked.length).toBe(3);
  use(new Resource("/v1/state/variables/none"), {live: true});
  await vi.advanceTimersByTimeAsync(1);
  await asked[3]?.answer({detail: "there is no such variable"}, {status: 404});
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(asked.length, "what is not there is there after an event").toBe(4);
});

test("a page that opens hidden reads what it will show", async () => {
  page.hidden = true;
  use(new Resource("/v1/hosts"), {live: true});
  await vi.advanceTimersByTimeAsync(0);
  expect(asked.length).toBe(1);
});

test("answers that switches are asked for leave a connection to live ones", async () => {
  const live = new Resource("/v1/state");
  use(live, TRACKED);
  await answerAfter(0);
  const slow = Array.from({length: 8}, (_, at) => new Resource(`/v1/switches/${at}/rules`));
  slow.forEach((one) => use(one, {every: 10_000}));
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked.length).toBe(1 + 3);
  await event("state");
  expect(asked.map(({path}) => path).at(-1)).toBe("/v1/state");
  for (let at = 0; at < 8; at += 1) {
    await asked.find(({path}) => path === `/v1/switches/${at}/rules`)?.answer({});
  }
  expect(asked.filter(({path}) => path.endsWith("rules")).length).toBe(8);
  expect(slow.every((one) => one.answer.value.data !== undefined)).toBe(true);
});

test("what is not shown any more is given up, and keeps nobody waiting", async () => {
  const slow = Array.from({length: 4}, (_, at) => new Resource(`/v1/switches/${at}/rules`));
  const ends = slow.map((one) => use(one, {every: 10_000}));
  await vi.advanceTimersByTimeAsync(0);
  expect(asked.length).toBe(3);
  ends.forEach((end) => end());
  await vi.advanceTimersByTimeAsync(0);
  expect(asked.every(({signal}) => signal?.aborted)).toBe(true);
  const other = new Resource("/v1/ports");
  use(other, {every: SOON});
  await answerAfter(0, {rows: []});
  expect(other.answer.value).toEqual({data: {rows: []}, problem: null});
  expect(slow.map((one) => one.answer.value)).toEqual(slow.map(() => ({data: undefined, problem: null})));

  use(slow[0] as Resource<unknown>, {every: 10_000});
  await answerAfter(0, {rows: []});
  expect(slow[0]?.answer.value.data, "it can be shown again").toEqual({rows: []});
});

test("what is always slow to read is read more rarely, what was slow once is not", async () => {
  const one = new Resource("/v1/names");
  use(one, {live: true});
  await answerAfter(5);
  await vi.advanceTimersByTimeAsync(1000);
  await event("state");
  await answerAfter(2000);
  await event("state");
  await vi.advanceTimersByTimeAsync(99);
  expect(asked.length).toBe(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(asked.length, "at once, apart from the shortest time between two readings").toBe(3);
  await answerAfter(2000);
  await event("state");
  await vi.advanceTimersByTimeAsync(6002);
  expect(asked.length).toBe(3);
  await vi.advanceTimersByTimeAsync(1);
  expect(asked.length, "a fourth of the time at most").toBe(4);
});
