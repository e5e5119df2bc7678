// The console in a real browser, on a stack of its own: dead letters, and the parts that show them in dialogs and pictures.

import { parts } from './lib/parts.js';

await parts(['dead', 'accessibility', 'shots', 'letters']);
