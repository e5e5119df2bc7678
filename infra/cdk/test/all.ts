/** Every test, in one process: the CDK's library takes 2 s to load, and would be loaded for each file. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

for (const file of readdirSync(__dirname).filter((name) => name.endsWith('.test.js'))) {
  require(join(__dirname, file));
}
