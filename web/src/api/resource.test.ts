// Tests of how answers are kept fresh: by whom, when, and without keeping each other waiting.
import {afterEach, beforeEach, expect, test, vi} from "vitest";

import {connect} from "./live";
import {freshest, Resource, SOON, TRACKED} from "./resource";

/** A request that waits for its answer. */
interface Asked {
  readonly path: string;
  readonly signal: AbortSignal | undefined;
  answer: (data: unknown) => Promise<void>;
}

class Source extends EventTarget {
  static latest: Source;
  onerror: unknown = null;
  constructor() {
    super();
    Source.latest = this;
  }
  close(): void {}
}

/** A document of which a test says whether it is seen. */
class Seen extends EventTarget {
  hidden = false;
  readonly listeners = new Set<unknown>();
  override addEventListener(type: string, listener: EventListener | null, options?: AddEventListenerOptions): void {
    this.listeners.add(listener);
    super.addEventListener(type, listener, options);
  }
}

let asked: Asked[];
let page: Seen;
let used: (() => void)[];

beforeEach(async () => {
  vi.useFakeTimers();
  [asked, page, used] = [[], new Seen(), []];
  vi.stubGlobal("document", page);
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("localStorage", {getItem: () => null, removeItem: () => undefined});
  vi.stubGlobal("fetch", (path: string, {signal}: RequestInit) => new Promise<Response>((done, fail) => {
    signal?.addEventListener("abort", () => fail(new DOMException("given up", "AbortError")));
    asked.push({path, signal: signal ?? undefined, answer: async (data) => {
      done(new Response(JSON.stringify(data)));
      await vi.advanceTimersByTimeAsync(0);
    }});
  }));
  const connected = connect();
  await asked.pop()?.answer({name: null, role: "read", csrf: null});
  await connected;
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

async function event(kind: "state" | "log"): Promise<void> {
  Source.latest.dispatchEvent(new Event(kind));
  await vi.advanceTimersByTimeAsync(0);
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

test("a page that is hidden for days asks nothing and has one listener, and asks once when it is seen", async () => {
  const [live, polled] = [new Resource("/v1/hosts"), new Resource("/v1/rules")];
  use(live, {live: true, every: SOON});
  await answerAfter(0);
  use(polled, {every: 10_000});
  await answerAfter(0);
  page.hidden = true;
  for (let hour = 0; hour < 48; hour += 1) {
    await event("log");
    await event("state");
    await vi.advanceTimersByTimeAsync(3_600_000);
  }
  expect(asked.length).toBe(2);
  expect(page.listeners.size, "one of each answer").toBe(2);
  page.hidden = false;
  page.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(0);
  expect(asked.map(({path}) => path)).toEqual(["/v1/hosts", "/v1/rules", "/v1/hosts", "/v1/rules"]);
  await asked[2]?.answer({});
  await vi.advanceTimersByTimeAsync(SOON + 1);
  expect(asked.length, "it goes on as before").toBe(5);
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
