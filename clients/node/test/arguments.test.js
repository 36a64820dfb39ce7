import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { Semaphore } from "../src/index.js";
import { optionsOf } from "../src/url.js";

const url = "redis://127.0.0.1:1/0";
const half = "\ud83d";

/** @type {[string, any, any, RegExp][]} */
const WRONG = [
  ["", { url }, RangeError, /must not be empty/],
  [half, { url }, RangeError, /half of a surrogate pair/],
  [/** @type {any} */ (7), { url }, TypeError, /name must be a string/],
  ["api", undefined, TypeError, /url must be a string/],
  ["api", { url, key: half }, RangeError, /key has half/],
  ["api", { url, key: 7 }, TypeError, /key must be a string/],
  ["api", { url, limit: 1.5 }, RangeError, /limit=1.5/],
  ["api", { url, limit: -1 }, RangeError, /limit=-1/],
  ["api", { url, limit: NaN }, RangeError, /limit=NaN/],
  ["api", { url, limit: "5" }, TypeError, /limit must be a number/],
  ["api", { url, limit: 2 ** 31 }, RangeError, /2147483647/],
  ["api", { url, limit: 2, weight: 3 }, RangeError, /weight=3 is above limit=2/],
  ["api", { url, weight: 0 }, RangeError, /weight=0/],
  ["api", { url, timeoutMs: NaN }, RangeError, /timeoutMs=NaN/],
  ["api", { url, timeoutMs: -1 }, RangeError, /timeoutMs=-1/],
  ["api", { url, leaseMs: 999 }, RangeError, /leaseMs=999/],
  ["api", { url, leaseMs: Infinity }, RangeError, /finite/],
  ["api", { url, takeUpMs: 0 }, RangeError, /takeUpMs=0/],
  ["api", { url, prefix: "{a}" }, RangeError, /prefix/],
  ["api", { url, prefix: "" }, RangeError, /prefix/],
  ["api", { url, lease: 30 }, TypeError, /no option lease/],
  ["api", { url: "localhost" }, TypeError, /url cannot be read/],
  ["api", { url: "sentinel://localhost:26379" }, TypeError, /sentinel:\/\//],
  ["api", { url: "redis://localhost/x" }, TypeError, /database/],
  ["api", { url: "redis://localhost/0?ssl_ca_certs=/ca.pem" }, TypeError, /ssl_ca_certs=/],
  ["api", { url: "rediss://localhost/0?ssl_cert_reqs=none" }, TypeError, /ssl_cert_reqs=/],
  ["api", { url: "rediss://localhost/0?ssl_ca_certs=/no/such/file" }, TypeError, /ssl_ca_certs=.*no such file/],
];

for (const [name, options, kind, message] of WRONG) {
  test(`${JSON.stringify([name, options])} is refused`, () => {
    assert.throws(
      () => new Semaphore(name, options),
      (/** @type {Error} */ error) => error instanceof kind && message.test(error.message),
    );
  });
}

test("an error of a URL shows no password", () => {
  for (const secret of ["redis://:hunter2@localhost/x", "redis://:hunter2%@localhost/0"]) {
    assert.throws(
      () => new Semaphore("api", { url: secret }),
      (error) => error instanceof TypeError && !error.message.includes("hunter2"),
    );
  }
});

test("a URL is read", () => {
  const { socket, ...others } = optionsOf("rediss://us%40er:p%2Fw@[::1]:7000/3");
  assert.deepEqual(others, { username: "us@er", password: "p/w", database: 3 });
  assert.deepEqual(socket, { host: "::1", port: 7000, tls: true });
  assert.equal(optionsOf("valkey://h").socket.port, 6379);
});

test("wrong arguments of methods are refused", async () => {
  const api = new Semaphore("api", { url, limit: 1 });
  await assert.rejects(api.acquire({ timeoutMs: NaN }), RangeError);
  await assert.rejects(api.release(/** @type {any} */ ({ holder: "a" })), TypeError);
  await assert.rejects(api.extend(/** @type {any} */ (undefined)), TypeError);
  const reason = new Error("stop");
  await assert.rejects(api.acquire({ signal: AbortSignal.abort(reason) }), reason);
  await api.close();
  await api.close();
  await assert.rejects(api.acquire(), { name: "SemaphoreError", message: /closed/ });
  await assert.rejects(api.available(), { name: "SemaphoreError" });
});

test("a signal that outlives its acquires has none of their listeners", async () => {
  const api = new Semaphore("api", { url, limit: 1 });
  const { signal } = new AbortController();
  await assert.rejects(api.acquire({ timeoutMs: 0, signal }), { name: "SemaphoreTimeout" });
  assert.equal(getEventListeners(signal, "abort").length, 0);
  await api.close();
});

test("a store that is away: an outage, not a hang", async () => {
  const api = new Semaphore("api", { url, limit: 1 });
  await assert.rejects(api.acquire({ timeoutMs: 0 }), (error) => {
    assert.ok(error instanceof Error);
    return error.name === "SemaphoreTimeout" && /** @type {any} */ (error.cause).name === "StoreUnavailable";
  });
  await assert.rejects(api.available(), { name: "StoreUnavailable" });
  await api.close();
});
