// A test: its tabs and consoles are closed at its end, what the tabs complained of fails it, what they showed is kept.

import { test } from 'node:test';

import { Browser } from './browser.js';
import { Stack } from './stack.js';

/** @typedef {{stack: Stack, console: import('./console.js').Console, browser: Browser}} Site */

const MOST_MS = 240_000;

/** @type {Promise<Site> | null} */
let started = null;
let failed = false;

async function start() {
  const browser = await Browser.launch();
  const stack = await Stack.start();
  // All tests but those that need another look through this one.
  return { stack, browser, console: await stack.console() };
}

/** The stack and the browser, which all tests share. */
export function site() {
  started ??= start();
  return started;
}

export async function end() {
  const all = await started?.catch(() => null);
  // Whatever is left of one that did not start ends with the process.
  if (!all) process.exit(1);
  await all.browser.browser.close();
  await all.stack.stop(failed);
}

/** @param {string} name @param {(site: Site) => Promise<void>} check */
export function promise(name, check) {
  test(name, { timeout: MOST_MS }, async () => {
    const all = await site();
    try {
      await check(all);
    } catch (error) {
      failed = true;
      await all.browser.keep(name);
      // What a page said of itself is often why.
      await all.browser.closeTabs().catch((said) => process.stderr.write(`${said}\n`));
      await all.stack.calm().catch((said) => process.stderr.write(`${said}\n`));
      throw error;
    }
    // A page whose console ends before it is closed complains that nobody answers.
    try {
      await all.browser.closeTabs();
      await all.stack.endConsoles(all.console);
    } catch (error) {
      failed = true;
      throw error;
    }
  });
}
