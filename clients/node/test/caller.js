// A program that Python drives, by lines of JSON: tests/clients/caller.py.
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Semaphore } from "../src/index.js";
import { inside } from "./counter.js";

/** @typedef {import("../src/index.js").Permit} Permit */

/** @type {Map<string, Semaphore>} */
const semaphores = new Map();
/** @type {Map<string, Permit>} */
const permits = new Map();
/** @type {Map<string, (why?: string) => void>} */
const bodies = new Map();
/** @type {Map<string, AbortController>} */
const controllers = new Map();
/** @type {string[]} */
const warnings = [];
process.on("warning", (warning) => warnings.push(warning.message));

/** @param {string} name */
const semaphore = (name) => /** @type {Semaphore} */ (semaphores.get(name));
/** @param {string} name */
const permit = (name) => /** @type {Permit} */ (permits.get(name));

/** @type {Record<string, (given: any) => any>} */
const COMMANDS = {
  open: ({ at, name, options }) => void semaphores.set(at, new Semaphore(name, options)),
  close: ({ at }) => semaphore(at).close(),
  available: ({ at }) => semaphore(at).available(),
  holders: ({ at }) => semaphore(at).holders(),
  warnings: () => warnings,
  async acquire({ at, as, timeoutMs }) {
    const controller = new AbortController();
    controllers.set(as, controller);
    const found = await semaphore(at).acquire({ timeoutMs, signal: controller.signal });
    permits.set(as, found);
    return { holder: found.holder, token: found.token };
  },
  /** Close twice at once, with releases that have just begun; return whether the first close was over with the second. */
  async closeWhileReleasing({ at, as }) {
    let isOver = false;
    const released = as.map((/** @type {string} */ each) => permit(each).release());
    const first = semaphore(at).close().then(() => (isOver = true));
    await semaphore(at).close();
    const wasOver = isOver;
    await Promise.all([first, ...released]);
    return wasOver;
  },
  /** Run a body that holds the permit until `endBody`, which may let it fail. */
  withPermit: ({ at, as }) =>
    semaphore(at).withPermit((found) => {
      permits.set(as, found);
      return new Promise((resolve, reject) => bodies.set(as, (why) => (why ? reject(new Error(why)) : resolve(as))));
    }),
  isInside: ({ as }) => bodies.has(as),
  endBody: ({ as, why }) => bodies.get(as)?.(why),
  dispose: ({ as }) => permit(as)[Symbol.asyncDispose](),
  abort: ({ as }) => controllers.get(as)?.abort(new Error("aborted by the test")),
  release: ({ as }) => permit(as).release(),
  extend: ({ at, as }) => semaphore(at).extend(permit(as)),
  isLost: ({ as }) => permit(as).signal.aborted && String(permit(as).signal.reason),
  /** Asleep: a loop would take the processor from other tests. */
  block: ({ ms }) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  /** Be blocked from the moment the call is sent, before its answer is read. */
  async acquireAndBlock({ at, as, ms }) {
    const found = semaphore(at).acquire();
    for (let n = 0; n < 100; n++) await null; // the driver has planned to write it
    await new Promise((resolve) => setImmediate(resolve));
    COMMANDS.block({ ms });
    permits.set(as, await found);
    return permit(as).holder;
  },
  /** Acquire as many at once, abort them all, and return the longest time until a rejection. */
  async abortMany({ at, many, afterMs }) {
    const controller = new AbortController();
    const all = Array.from({ length: many }, () => semaphore(at).acquire({ signal: controller.signal }));
    await sleep(afterMs);
    const since = performance.now();
    controller.abort(new Error("aborted by the test"));
    const ends = await Promise.allSettled(all);
    return { ms: performance.now() - since, rejected: ends.filter(({ status }) => status === "rejected").length };
  },
  /** Run bodies that are counted outside, by their holders or a name; `abortMs` aborts every other one within so long. */
  async bodies({ at, many, ms, task = null, abortMs = 0, everyMs = 0 }) {
    const ends = [];
    for (let n = 0; n < many; n++) {
      if (everyMs) await sleep(everyMs);
      const signal = abortMs && n % 2 ? AbortSignal.timeout(Math.floor(Math.random() * abortMs)) : undefined;
      const body = (/** @type {Permit} */ permit) => inside("api", task ?? permit.holder, () => sleep(ms));
      ends.push(semaphore(at).withPermit(body, { signal }));
    }
    const found = await Promise.allSettled(ends);
    const errors = found.flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []));
    return { done: many - errors.length, errors };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, ...given } = JSON.parse(line);
  void (async () => {
    try {
      return { value: (await COMMANDS[command](given)) ?? null };
    } catch (error) {
      const { name, message, cause } = /** @type {any} */ (error);
      return { error: [name, message, cause?.name ?? null] };
    }
  })().then((answer) => process.stdout.write(`${JSON.stringify({ id, ...answer })}\n`));
}
