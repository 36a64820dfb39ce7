// Never run: tsc reads what users see, and finds each misuse.
import { Permit, PermitLost, Semaphore, SemaphoreError, SemaphoreTimeout, StoreUnavailable } from "../src/index.js";

const url = "redis://localhost:6379/0";

export async function use(): Promise<number> {
  const api = new Semaphore("api", { limit: 5, url, key: null, weight: 1, timeoutMs: 60_000, leaseMs: 30_000 });
  await using other: Semaphore = new Semaphore("api", { url, takeUpMs: 1, prefix: "shop", key: "7", limit: null });
  const text: string = await api.withPermit(async (permit) => String(permit.token), { timeoutMs: 5 });
  const length: number = await api.withPermit((permit) => permit.holder.length + text.length);
  await using permit: Permit = await other.acquire({ timeoutMs: 0, signal: AbortSignal.timeout(5) });
  const signal: AbortSignal = permit.signal;
  const [held] = await api.holders();
  const since: Date = held.acquiredAt;
  await api.extend(permit);
  await api.release(permit);
  await api.close();
  return (await api.available()) + length + since.getTime() + held.weight + Number(signal.aborted && held.granted);
}

export const kinds = (error: unknown): boolean[] =>
  [SemaphoreError, SemaphoreTimeout, PermitLost, StoreUnavailable].map((kind) => error instanceof kind);

export async function misuse(api: Semaphore, permit: Permit): Promise<void> {
  // @ts-expect-error no url
  new Semaphore("api", { limit: 5 });
  // @ts-expect-error a text for a limit
  new Semaphore("api", { limit: "5", url });
  // @ts-expect-error no such option
  new Semaphore("api", { limit: 5, url, lease: 30 });
  // @ts-expect-error milliseconds in an option, not seconds alone
  await api.acquire(5);
  // @ts-expect-error no permit
  await api.release(permit.holder);
  // @ts-expect-error the body is a function
  await api.withPermit(permit.release());
  // @ts-expect-error a signal is read only
  permit.signal = AbortSignal.abort();
  // @ts-expect-error it is a promise
  const free: number = api.available();
  // @ts-expect-error no such method
  api.permits(free);
}
