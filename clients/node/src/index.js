export { PermitLost, SemaphoreError, SemaphoreTimeout, StoreUnavailable } from "./errors.js";
export { Permit } from "./permit.js";
export { Semaphore } from "./semaphore.js";
