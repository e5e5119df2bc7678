// The console in a real browser: figures, what operators do, restarts, security. `frames` measures.

import { parts } from './lib/parts.js';

await parts(['vendored', 'figures', 'states', 'actions', 'campaigns', 'restart', 'security'], ['frames']);
