// The menu of stacks.

import assert from 'node:assert/strict';
import { cp, mkdir } from 'node:fs/promises';
import path from 'node:path';

import { promise } from '../lib/promise.js';

promise('another stack is opened from the menu, with a menu of its own, and both end together', async ({ browser, stack }) => {
  const runs = path.join(stack.folder, 'runs');
  for (const name of ['one', 'two']) {
    await mkdir(path.join(runs, name), { recursive: true });
    await cp(path.join(stack.folder, 'stack.json'), path.join(runs, name, 'stack.json'));
  }
  const one = await stack.console([], {}, ['--local=one', '--local-runs', runs]);
  const tab = await browser.open(one);
  await tab.at('stacks').click();
  const menu = await tab.dialog('stacks');
  await menu.getByText('this page').waitFor();
  await menu.getByRole('button', { name: 'Open two' }).click();
  await tab.page.waitForURL((url) => url.origin !== one.origin);
  await tab.live();
  const two = tab.page.url();

  await tab.at('stacks').click();
  const back = await tab.dialog('stacks');
  await back.getByRole('button', { name: 'Open one' }).click();
  await tab.page.waitForURL(one.url);
  await tab.live();
  // It is open already.
  await tab.at('stacks').click();
  await (await tab.dialog('stacks')).getByRole('button', { name: 'Open two' }).click();
  await tab.page.waitForURL(two);
  await tab.page.goto('about:blank');

  await stack.endConsoles(...stack.consoles.filter((other) => other !== one));
  await assert.rejects(fetch(two));
});
