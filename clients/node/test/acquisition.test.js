import assert from "node:assert/strict";
import { test } from "node:test";
import { Acquisition } from "../src/acquisition.js";
import { refusal } from "../src/answers.js";
import { Claim } from "../src/claim.js";
import { SemaphoreError, SemaphoreTimeout, StoreUnavailable } from "../src/errors.js";

const TICKET = `${"0".repeat(21)}nonce`;
const GRANTED = { granted: { holder: "", token: 1, since: 0, ends: 1, epoch: 1 } };
const refused = (/** @type {string} */ reason, retryMs = 0) => ({
  refusal: { reason, limit: 1, occupied: 1, ticket: TICKET, position: 0, retryMs, declaredBy: "" },
});

/**
 * Return an acquire at a store that gives these answers, or throws them; the holders that asked; and what was released.
 * @param {any[]} answers @param {number} [timeoutMs] @param {() => Promise<void>} [leaving]
 */
function acquiring(answers, timeoutMs = Infinity, leaving = async () => {}) {
  /** @type {string[]} */
  const holders = [];
  /** @type {string[]} */
  const released = [];
  const store = {
    leaseMs: 30_000,
    keeper: { add() {} },
    asker: { add() {}, discard() {} },
    releaser: {
      later: (/** @type {string} */ name) => released.push(name),
      release: (/** @type {string} */ name) => (released.push(name), leaving()),
    },
    async acquire(/** @type {Claim} */ _claim, /** @type {string} */ holder) {
      holders.push(holder);
      const answer = answers.shift() ?? new Promise(() => {});
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  const acquisition = new Acquisition(/** @type {any} */ (store), new Claim("api", null, 1, 1), timeoutMs);
  return { acquisition, holders, released };
}

/** Stand for a store that hangs. @returns {Promise<void>} */
const hanging = () => new Promise(() => {});

/** @param {string[]} holders @param {number} many */
async function asked(holders, many) {
  for (let n = 0; holders.length < many && n < 20_000; n++) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.equal(holders.length, many);
}

test("a holder that was admitted and has lapsed is released for good: another one asks", async () => {
  const { acquisition, holders } = acquiring([refused("released"), GRANTED]);
  await acquisition.permit();
  assert.equal(new Set(holders).size, 2);
});

test("one that gives up releases what a lost answer may have admitted, beside its place in line", async () => {
  const { acquisition, holders, released } = acquiring([new StoreUnavailable("lost"), refused("saturated", 60_000)]);
  const permit = acquisition.permit();
  await asked(holders, 2);
  await new Promise((resolve) => setImmediate(resolve)); // it has read the refusal, and waits
  acquisition.abort(new Error("stop"));
  await assert.rejects(permit, /stop/);
  assert.deepEqual(released, [holders[0], TICKET]);
});

test("one that gives up while it asks releases what that may admit, beside its place in line", async () => {
  const { acquisition, holders, released } = acquiring([refused("saturated")]);
  const permit = acquisition.permit();
  await asked(holders, 2); // the second one has no answer
  acquisition.abort(new Error("stop"));
  await assert.rejects(permit, /stop/);
  assert.deepEqual(released, [holders[0], TICKET]);
});

test("an abort is heard while it leaves the line, too", { timeout: 5000 }, async () => {
  const { acquisition, released } = acquiring([refused("timed_out")], 1000, hanging);
  const rejected = assert.rejects(acquisition.permit(), /stop/);
  await asked(released, 1);
  acquisition.abort(new Error("stop"));
  await rejected;
});

test("a timeout in an outage waits for no release", { timeout: 5000 }, async () => {
  const { acquisition, holders, released } = acquiring([new StoreUnavailable("away")], 0, hanging);
  await assert.rejects(acquisition.permit(), SemaphoreTimeout);
  assert.deepEqual(released, holders);
});

test("an answer of another release is an error, not a call without a pause", () => {
  assert.throws(() => refusal([1, "saturated"]), (error) => error instanceof SemaphoreError && /saturated/.test(error.message));
});
