// Parts of the browser tests that share one local stack.

import { after } from 'node:test';

import { end } from './promise.js';

/** For work on some of them: `PARTS=dead,accessibility`. */
const chosen = process.env.PARTS?.split(',');

/**
 * Runs these parts one after the other: later ones look at what earlier ones left, such as dead letters.
 * @param {string[]} names @param {string[]} [others] parts that run only if `PARTS` names them
 */
export async function parts(names, others = []) {
  const run = chosen ? [...names, ...others].filter((name) => chosen.includes(name)) : names;
  if (run.length === 0) return;
  after(end);
  for (const name of run) await import(`../parts/${name}.js`);
}
