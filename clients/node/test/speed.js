// Measures pairs of acquire and release against the driver's SET NX and DEL, and crowds: benchmarks/node.py.
import { createClient } from "@redis/client";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Semaphore } from "../src/index.js";

const [url, given] = process.argv.slice(2);
const { pairs, rounds, callers, crowds } = JSON.parse(given);

/** Return how often the callers together make this call in a second. @param {number} many @param {() => Promise<unknown>} call */
async function rate(many, call) {
  const since = performance.now();
  const each = async () => {
    for (let n = 0; n < pairs / many; n++) await call();
  };
  await Promise.all(Array.from({ length: many }, each));
  return pairs / ((performance.now() - since) / 1000);
}

/** @param {any} driver @param {number} many */
async function ratios(driver, many) {
  const api = new Semaphore(`pairs ${many}`, { limit: many, url });
  const lock = async () => {
    const name = `lock ${randomUUID()}`;
    await driver.sendCommand(["SET", name, "x", "NX", "PX", "30000"]);
    await driver.sendCommand(["DEL", name]);
  };
  const found = [];
  for (let n = 0; n < rounds; n++) {
    found.push({ theirs: await rate(many, lock), ours: await rate(many, async () => (await api.acquire()).release()) });
  }
  await api.close();
  return found;
}

/** Return what part of the limit was used. @param {{ many: number, limit: number, ms: number }} crowd */
async function use({ many, limit, ms }) {
  const api = new Semaphore(`crowd ${many}`, { limit, url });
  const since = performance.now();
  await Promise.all(Array.from({ length: many }, () => api.withPermit(() => sleep(ms))));
  const took = performance.now() - since;
  await api.close();
  return (many * ms) / limit / took;
}

const driver = await createClient({ url }).connect();
const found = { pairs: /** @type {any[]} */ ([]), crowds: /** @type {number[]} */ ([]) };
for (const many of callers) found.pairs.push(await ratios(driver, many));
for (const crowd of crowds) found.crowds.push(await use(crowd));
process.stdout.write(JSON.stringify(found));
driver.destroy();
