import assert from "node:assert/strict";
import { test } from "node:test";
import { Claim } from "../src/claim.js";
import { Backoff, ShortReleases } from "../src/short_releases.js";

const CLAIM = new Claim("api", null, 5, 1);

/** @param {boolean[]} sufficed */
function releases(...sufficed) {
  /** @type {string[]} */
  const made = [];
  const runner = {
    run: async () => (made.push("long"), [1]),
    runShort: async (/** @type {any} */ { script }) => {
      made.push(script.name);
      return { answer: [1], sufficed: sufficed.shift() ?? true };
    },
  };
  return { made, releases: new ShortReleases(/** @type {any} */ (runner)) };
}

test("after each try in vain twice as many calls leave it out", () => {
  const backoff = new Backoff();
  const tries = Array.from({ length: 300 }, () => backoff.isDue() && (backoff.note(false), true));
  const found = tries.flatMap((isTry, n) => (isTry ? [n] : []));
  assert.deepEqual(found, [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]);
});

test("one that sufficed begins anew", () => {
  const backoff = new Backoff();
  for (let n = 0; n < 300; n++) if (backoff.isDue()) backoff.note(false);
  while (!backoff.isDue());
  backoff.note(true);
  assert.ok(backoff.isDue());
  backoff.note(false);
  assert.deepEqual([backoff.isDue(), backoff.isDue()], [false, true]);
});

test("a release in vain leaves out the next one of its resource alone", async () => {
  const { made, releases: short } = releases(false);
  for (let n = 0; n < 3; n++) await short.release(CLAIM, "a");
  await short.release(new Claim("api", "7", 5, 1), "a");
  assert.deepEqual(made, ["short_release", "long", "short_release", "short_release"]);
});

test("a release of another weight is long", async () => {
  const { made, releases: short } = releases();
  await short.release(new Claim("api", null, 5, 2), "a");
  assert.deepEqual(made, ["long"]);
});
