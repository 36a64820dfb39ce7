const SWEEP_MS = 2000; // between two sweeps of one process
const TOGETHER = 10; // sessions; with more of them the pause grows in proportion
const LONGEST_SWEEP_MS = 10_000; // the longest pause

/** Return the milliseconds between two sweeps of one process, among so many awake sessions. @param {number} sessions */
export const sweepPause = (sessions) => Math.min(SWEEP_MS * Math.max(1, sessions / TOGETHER), LONGEST_SWEEP_MS);
