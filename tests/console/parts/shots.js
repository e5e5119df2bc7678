// Pictures for people: how the page looks in light, in dark, and on a phone.

import { mkdir } from 'node:fs/promises';
import path from 'node:path';

import { SHOTS } from '../lib/browser.js';
import { promise } from '../lib/promise.js';

promise('pictures of the page are kept, in light, in dark and at 360 px', async ({ console, browser }) => {
  await mkdir(SHOTS, { recursive: true });
  for (const [name, how, whole] of /** @type {const} */ ([
    ['light', {}, false], ['dark', { dark: true }, false], ['narrow', { width: 360, height: 740 }, true], ['whole', {}, true],
  ])) {
    const tab = await browser.open(console, how);
    await tab.page.locator('#chart canvas').waitFor();
    await tab.readDeadLetters();
    await tab.page.locator('#legend').getByText('Forecast').waitFor();
    await tab.page.screenshot({ path: path.join(SHOTS, `${name}.png`), fullPage: whole });
    if (whole) {
      await tab.page.goto(`${console.url}#campaign=big`);
      await tab.at('one-title').waitFor();
      await tab.page.screenshot({ path: path.join(SHOTS, `campaign-${name}.png`), fullPage: true });
    }
  }
});
