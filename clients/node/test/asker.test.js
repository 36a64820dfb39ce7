import assert from "node:assert/strict";
import { test } from "node:test";
import { Asker } from "../src/asker.js";
import { SemaphoreError, StoreUnavailable } from "../src/errors.js";
import { Notice } from "../src/notice.js";

const QUESTION_MS = 500; // by the clock of these tests, of which 2,000 ms are between two sweeps

/**
 * Return the calls that an asker makes once it has been idle for so long; `fails` says what one of them throws.
 * @param {import("node:test").TestContext} t @param {number} many
 * @param {{ idleMs?: number, sessions?: number, fails?: (made: string[]) => Error | undefined }} [given]
 */
async function calls(t, many, { idleMs = 0, sessions = 1, fails = () => undefined } = {}) {
  let [now, epoch] = [0, 1];
  t.mock.method(performance, "now", () => now);
  const wait = { nonce: "a", resource: "api" };
  /** @type {string[]} */
  const made = [];
  const call = async (/** @type {string} */ name, /** @type {number} */ ms) => {
    made.push(name);
    now += ms;
    if (made.length >= many) asker.discard(wait);
    const error = fails(made);
    if (error) throw error;
    // Each answer differs, so that the next question comes soon.
    return { epoch, slept: false, sessions, granted: [], expected: new Map([["a", made.length % 2]]) };
  };
  const store = { epoch, ask: () => call("ask", QUESTION_MS), reap: () => call("reap", 0) };
  const asker = new Asker(/** @type {any} */ (store));
  now += idleMs;
  asker.add(wait, new Notice());
  for (let n = 0; made.length < many && n < 20_000; n++) await new Promise((resolve) => setTimeout(resolve, 1));
  return made.join(" ");
}

test("it sweeps every two seconds, before a question", async (t) => {
  assert.equal(await calls(t, 11), "ask ask ask ask reap ask ask ask ask reap ask");
});

test("the question after a sweep tells what it granted", async (t) => {
  assert.equal(await calls(t, 3, { idleMs: 2000 }), "reap ask ask");
});

test("the more sessions, the longer the pause", async (t) => {
  assert.equal(await calls(t, 13, { sessions: 15 }), "ask ask ask ask reap ask ask ask ask ask ask reap ask");
});

test("however many sessions, it sweeps every ten seconds", async (t) => {
  const twenty = Array(20).fill("ask").join(" ");
  assert.equal(await calls(t, 27, { sessions: 99 }), `ask ask ask ask reap ${twenty} reap ask`);
});

for (const error of [new StoreUnavailable("gone"), new SemaphoreError("no right to reap")]) {
  test(`a sweep that fails stops no question: ${error.message}`, async (t) => {
    t.mock.method(process, "emitWarning", () => {});
    const fails = (/** @type {string[]} */ made) => (made.at(-1) === "reap" ? error : undefined);
    assert.equal(await calls(t, 11, { fails }), "ask ask ask ask reap ask ask ask ask reap ask");
  });
}

for (const [what, answers] of /** @type {[string, any[]][]} */ ([
  ["its session was asleep", [{}, { slept: true }]],
  ["the store began a new epoch", [{}, { epoch: 2 }]],
  ["a question had no answer", [{}, new StoreUnavailable("gone"), {}]],
])) {
  test(`all acquires ask again once ${what}: a grant may have ended unheard`, async () => {
    const notice = new Notice();
    /** @type {boolean[]} */
    const before = [];
    let isTold = false;
    notice.set = () => void (isTold = true);
    const wait = { nonce: "a", resource: "api" };
    const store = {
      epoch: 1,
      reap: async () => {},
      async ask() {
        before.push(isTold);
        const answer = answers.shift() ?? {};
        if (answer instanceof Error) throw answer;
        return { epoch: 1, slept: false, sessions: 1, granted: [], expected: new Map([["a", 0]]), ...answer };
      },
    };
    const asker = new Asker(/** @type {any} */ (store));
    const many = answers.length;
    asker.add(wait, notice);
    for (let n = 0; !isTold && n < 5000; n++) await new Promise((resolve) => setTimeout(resolve, 1));
    asker.discard(wait);
    assert.ok(isTold);
    assert.deepEqual(before, Array(many).fill(false), "not before the answer that says so");
  });
}

test("while the store is away it is only asked", async (t) => {
  const fails = (/** @type {string[]} */ made) => ([4, 5].includes(made.length) ? new StoreUnavailable("gone") : undefined);
  assert.equal(await calls(t, 8, { fails }), "ask ask ask ask ask ask reap ask");
});
