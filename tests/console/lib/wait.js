// Waiting for what is true sooner or later: never for a span of time.

import { setTimeout as sleep } from 'node:timers/promises';

/** How long anything may take on a slow machine, in seconds. */
export const PATIENCE_S = 60;

/**
 * Tries until `check` neither throws nor gives something false; what it said last is why it failed.
 * @template T
 * @param {string} what
 * @param {() => T | Promise<T>} check
 * @param {number} [seconds]
 * @returns {Promise<T>}
 */
export async function until(what, check, seconds = PATIENCE_S) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    try {
      const found = await check();
      if (found) return found;
      if (Date.now() > end) throw new Error('it never was');
    } catch (error) {
      if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s: ${/** @type {Error} */ (error).message}`, { cause: error });
    }
    await sleep(100);
  }
}
