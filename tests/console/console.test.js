// The console in a real browser, on one local stack. The parts go one after the other, in this order.

import { after } from 'node:test';

import { end } from './lib/promise.js';

after(end);

await import('./parts/vendored.js');
await import('./parts/figures.js');
await import('./parts/actions.js');
await import('./parts/dead.js');
await import('./parts/restart.js');
await import('./parts/security.js');
await import('./parts/accessibility.js');
await import('./parts/shots.js');
