// What is vendored is what its makers published.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';

import { CHECKOUT } from '../lib/stack.js';

const VENDOR = path.join(CHECKOUT, 'crates/console/assets/vendor');
const PACKAGE = path.dirname(createRequire(import.meta.url).resolve('uplot/package.json'));

test('the vendored files are the package’s, byte by byte, and of the version that they say', async () => {
  const { version } = JSON.parse(await readFile(path.join(PACKAGE, 'package.json'), 'utf8'));
  assert.match(await readFile(path.join(VENDOR, 'README.md'), 'utf8'), new RegExp(`\\| ${version.replaceAll('.', '\\.')} \\|`));
  const files = (await readdir(VENDOR)).filter((name) => name !== 'README.md');
  assert.deepEqual(files.sort(), ['LICENSE', 'uPlot.iife.min.js', 'uPlot.min.css']);
  for (const name of files) {
    const published = path.join(PACKAGE, name === 'LICENSE' ? name : `dist/${name}`);
    assert.ok((await readFile(path.join(VENDOR, name))).equals(await readFile(published)), `${name} is not what ${published} is`);
  }
});
