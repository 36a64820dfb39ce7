/** The base of every error that this library throws, but for those of wrong arguments. */
export class SemaphoreError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** No permit was free in time. */
export class SemaphoreTimeout extends SemaphoreError {}

/** The permit's lease ended while its holder ran: another holder may have it now. */
export class PermitLost extends SemaphoreError {}

/** The store did not answer in time, or refused to. */
export class StoreUnavailable extends SemaphoreError {}

// After one of these a call is repeated over a new connection: the server changed its role or the node, or starts.
const MOVED = /^(?:READONLY|LOADING|MASTERDOWN|MOVED|ASK|TRYAGAIN|CLUSTERDOWN)\b/;
// An error of the script itself is final, unlike one that the server's state or its operator caused.
const OF_A_SCRIPT = /\buser_script\b|^WRONGTYPE\b/;
const PASSES =
  /(?:^|\s-?)(?:NOAUTH|WRONGPASS|NOPERM|OOM|MISCONF|READONLY|LOADING|MASTERDOWN|BUSY|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|UNKILLABLE|EXECABORT|NOSCRIPT)\b|^Script killed|^ACL failure|The user executing the script can't|max number of clients/;
const MISTAKES = /^(?:NOAUTH|WRONGPASS|NOPERM)\b|\bDB index\b|^ERR (?:AUTH|invalid password)\b/;
const NEWER = /^NEWERFORMAT (\d+)/;

/**
 * Return whether the call may succeed over a new connection.
 * @param {unknown} error of the driver
 * @param {boolean} isReply whether the server answered with it
 */
export const isTransient = (error, isReply) => !isReply || MOVED.test(said(error));

/**
 * Translate an error of the driver.
 * @param {unknown} error
 * @param {{ isReply: boolean, hasWorked: boolean, format: string }} known
 */
export function translated(error, { isReply, hasWorked, format }) {
  if (error instanceof SemaphoreError) return error;
  const text = said(error);
  const cause = { cause: error };
  if (!isReply) return new StoreUnavailable(`The store did not answer: ${text}`, cause);
  if (OF_A_SCRIPT.test(text) && !PASSES.test(text)) {
    return new SemaphoreError(`The store cannot take what it was given: ${text}`, cause);
  }
  const newer = NEWER.exec(text);
  if (newer) {
    const message = `the store has format ${newer[1]}, and this release reads up to format ${format}: upgrade it`;
    return new StoreUnavailable(message, cause);
  }
  if (!hasWorked && MISTAKES.test(text)) {
    return new SemaphoreError(`The store refused the user, the password or the database of url: ${text}`, cause);
  }
  return new StoreUnavailable(`The store refused the call: ${text}`, cause);
}

/** @param {unknown} error */
export const said = (error) => (error instanceof Error ? error.message || error.name : String(error));
