// The console in a real browser, on one local stack. The parts go one after the other, in this order: later ones
// look at what earlier ones left, such as dead letters.

import { after } from 'node:test';

import { end } from './lib/promise.js';

const PARTS = ['vendored', 'figures', 'actions', 'dead', 'campaigns', 'stacks', 'restart', 'security', 'accessibility', 'shots', 'letters'];
/** For work on one of them: `PARTS=dead,accessibility`. */
const chosen = process.env.PARTS?.split(',') ?? PARTS;

after(end);
// `frames` measures, and is run only if it is asked for.
for (const part of [...PARTS, 'frames'].filter((name) => chosen.includes(name))) await import(`./parts/${part}.js`);
