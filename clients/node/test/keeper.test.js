import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { LeaseKeeper } from "../src/keeper.js";

const LEASE_MS = 3000;

test("a permit lasts from when its renewal was sent, not from when the answer came", async () => {
  const answers = [2000, Infinity]; // milliseconds after which the store answers
  const store = {
    leaseMs: LEASE_MS,
    reap: async () => {},
    renew: async () => {
      await sleep(Math.min(answers.shift() ?? Infinity, 60_000), undefined, { ref: false });
      answered = performance.now();
      return new Map([["a", "ok"]]);
    },
  };
  let [answered, lost] = [0, 0];
  const keeper = new LeaseKeeper(/** @type {any} */ (store));
  const permit = { holder: "a", lasts: LEASE_MS * 1000, lose: () => (lost = performance.now()) };
  keeper.add(/** @type {any} */ (permit), performance.now());
  for (let n = 0; !lost && n < 1000; n++) await sleep(10);
  keeper.close();
  assert.ok(answered && lost);
  assert.ok(lost - answered < LEASE_MS / 2, `${lost - answered} ms later`);
});
