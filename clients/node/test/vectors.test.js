import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as calls from "../src/calls.js";
import { Claim } from "../src/claim.js";
import { Durations } from "../src/durations.js";
import { processName } from "../src/names.js";
import { Runner } from "../src/runner.js";
import * as scripts from "../src/scripts.js";

/** @type {any[]} */
const VECTORS = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf8"));
const [RUN, EPOCH] = ["8d5f", 1_790_000_000_000_001];
const [HOLDER, SESSION] = ["host/7:0123456789abcdef", "host/7:fedcba9876543210"];

/** As `permits` of clients/vectors.py. @param {number} many @param {number} [resources] */
const permits = (many, resources = 1) =>
  Array.from({ length: many }, (_, n) => ({
    holder: HOLDER + n,
    token: EPOCH + n,
    since: 1_790_000_000_000_001 + n * 1_000_000,
    epoch: EPOCH - n,
    claim: new Claim("api", String(n % resources), 5, (n % 3) + 1),
  }));

/** @template T @param {T[]} all @returns {T[][]} */
const hundreds = (all) => (all.length > 100 ? [all.slice(0, 100), all.slice(100)] : [all]);

/** @param {any} given @returns {(calls.Call | calls.ShortCall)[]} */
function callsOf({ call, ...given }) {
  const claim = new Claim("api", "7", 5, 2);
  switch (call) {
    case "acquire": {
      const [name, key, limit, weight] = given.claim;
      const timeoutMs = given.timeoutMs ?? Infinity;
      const lease = calls.microseconds(given.lease[0]);
      const wait = { ticket: given.ticket, timeoutMs, session: SESSION, lease };
      return [calls.acquire(new Claim(name, key, limit, weight), HOLDER, timeoutMs ? wait : null)];
    }
    case "release":
      return [calls.release(claim, given.name)];
    case "renew_many":
      return hundreds(permits(given.many)).slice(0, given.words.length).map(calls.renewMany);
    case "renew": {
      const all = permits(given.many, given.resources);
      const alike = given.resources === 1 ? hundreds(all) : [all.filter((_, n) => n % 2 === 0), [all[1]]];
      return [...hundreds(all).map(calls.renewMany), ...alike.map(calls.renew)];
    }
    case "ask": {
      const waits = Array.from({ length: given.many }, (_, n) => ({ nonce: HOLDER + n, resource: `api/${n % 2}` }));
      return [calls.ask(SESSION, waits)];
    }
    case "overdue":
      return [calls.overdue()];
    case "reap":
      return [calls.release(claim, HOLDER), calls.reap(["api/7"]), calls.reap(["api/7", "gpu", "a/b"])];
    case "short_release": {
      const [name, key, limit, weight] = given.claim;
      return [calls.shortRelease(new Claim(name, key, limit, weight), HOLDER)];
    }
    case "snapshot":
      return [calls.snapshot("api/7", 1)];
    default:
      throw new Error(call);
  }
}

/** @param {any} given */
function wordsOf(given) {
  const durations = new Durations(
    /** @type {[number, number]} */ ((given.lease ?? [30_000, 30_000]).map(calls.microseconds)),
  );
  const runner = new Runner(/** @type {any} */ (null), given.prefix ?? "celery-semaphore", durations);
  runner.epoch = given.epoch === undefined ? EPOCH : given.epoch;
  return callsOf(given).map((call) => {
    const words = "resource" in call ? runner.shortWords(call, RUN) : runner.words(call, RUN);
    words[1] = call.script.name;
    if (call.script === scripts.OVERDUE) words[words.length - 1] = "PROCESS";
    return words.map((word) => (word === processName() ? "PROCESS" : word));
  });
}

for (const [n, given] of VECTORS.entries()) {
  test(`words of ${given.call}, case ${n}`, () => assert.deepEqual(wordsOf(given), given.words));
}

test("there are enough cases, of each script", () => {
  assert.ok(VECTORS.length >= 55);
  const each = new Set(VECTORS.flatMap(({ words }) => words.map((/** @type {string[]} */ [, name]) => name)));
  const all = Object.values(scripts).flatMap((one) => (one instanceof scripts.Script ? [one.name] : []));
  assert.deepEqual([...each].sort(), all.sort());
});

test("the source of a script goes in place of its digest", () => {
  const runner = new Runner(/** @type {any} */ (null), "p", new Durations([1, 1]));
  const [verb, source, ...rest] = runner.words(calls.reap(["api"]), RUN, true);
  assert.deepEqual([verb, source], ["EVAL", scripts.REAP.source]);
  assert.deepEqual(rest, runner.words(calls.reap(["api"]), RUN).slice(2));
});
