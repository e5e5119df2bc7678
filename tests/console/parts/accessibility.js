// For everybody: axe finds nothing, the keyboard alone is enough, and 360 px are.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

import { promise } from '../lib/promise.js';
import { PATIENCE_S, until } from '../lib/wait.js';

/** @typedef {import('../lib/browser.js').Tab} Tab */

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe finds wrong in a part of the page. @param {Tab} tab @param {string} where */
async function wrong(tab, where) {
  const found = await tab.page.evaluate((selector) => {
    /** @type {any} */
    const axe = Reflect.get(globalThis, 'axe');
    return axe.run(selector, { resultTypes: ['violations'] });
  }, where);
  return found.violations.flatMap((/** @type {any} */ { id, help, nodes }) => nodes.map((/** @type {any} */ node) => `${where} ${id}: ${help}: ${node.target} ${node.any.map((/** @type {any} */ one) => one.message).join('; ')}`));
}

/** How wide the page is, beyond its window. @param {Tab} tab */
function beyond(tab) {
  return tab.page.evaluate(() => {
    const root = document.scrollingElement ?? document.documentElement;
    return root.scrollWidth - root.clientWidth;
  });
}

/** @type {[name: string, open: (tab: Tab) => Promise<void>][]} */
const DIALOGS = [
  ['pause', (tab) => tab.campaign('big').getByTestId('pause').click()],
  ['resume', (tab) => tab.campaign('small').getByTestId('pause').click()],
  ['rate', (tab) => tab.at('open-rate').click()],
  ['weights', (tab) => tab.at('open-weights').click()],
  ['replay', (tab) => tab.at('dead-replay').click()],
  ['who', (tab) => tab.at('who').click()],
  ['help', (tab) => tab.at('help').click()],
  ['letter', async (tab) => {
    // By the keyboard: where it is narrow the table's head stands over the row that is scrolled to.
    await tab.at('letter-link').focus();
    await tab.page.keyboard.press('Enter');
    await tab.page.locator('.letter-body').waitFor();
  }],
  ['correct', async (tab) => {
    await tab.at('letter-link').focus();
    await tab.page.keyboard.press('Enter');
    await tab.at('letter-correct').click();
  }],
];

/** Opens a dialog, as a person does: again if the page moved under the pointer. @param {Tab} tab @param {string} name @param {(tab: Tab) => Promise<void>} open */
async function opened(tab, name, open) {
  const shows = tab.page.locator(`dialog[open][data-testid=dialog-${name}]`);
  // An Enter that comes before the last dialog is quite closed opens nothing: the whole is tried again.
  tab.page.setDefaultTimeout(5_000);
  try {
    await until(`the dialog ${name}`, async () => {
      if (await tab.page.locator('dialog[open]').count() > 0) await tab.page.keyboard.press('Escape');
      await open(tab);
      return shows.waitFor().then(() => true, () => false);
    });
  } finally {
    tab.page.setDefaultTimeout(PATIENCE_S * 1000);
  }
  return shows;
}

/** @type {[string, NonNullable<Parameters<import('../lib/browser.js').Browser['tab']>[0]>][]} */
const LOOKS = [['in light', {}], ['in dark', { dark: true }], ['at 360 px', { width: 360, height: 740 }]];

for (const [look, how] of LOOKS) {
  promise(`axe finds nothing wrong ${look}: in the page with data, and in each dialog`, async ({ stack, console, browser }) => {
    await stack.tidegate('pause', 'small', '--reason', 'the link is wrong');
    const tab = await browser.open(console, how);
    await tab.page.evaluate(AXE);
    await tab.at('hold').waitFor();
    await tab.at('event').first().waitFor();
    await tab.readDeadLetters();
    await tab.oneLetter();
    await tab.page.locator('[data-testid=dead] summary').click();
    await tab.at('as-table').click();
    const found = await wrong(tab, 'html');
    assert.equal(await beyond(tab), 0, 'the page scrolls sideways');
    for (const [name, open] of DIALOGS) {
      const dialog = await opened(tab, name, open);
      found.push(...await wrong(tab, `dialog[data-testid=dialog-${name}]`));
      assert.equal(await beyond(tab), 0, `the page scrolls sideways below ${name}`);
      const box = await dialog.boundingBox();
      assert.ok(box && box.x >= 0 && box.x + box.width <= (how.width ?? 1440), `${name} is wider than the window`);
      if (name === 'pause') {
        await dialog.getByTestId('confirm').click();
        await dialog.getByText('The reason is missing').waitFor();
        found.push(...await wrong(tab, 'dialog'));
      }
      if (name === 'replay') {
        await dialog.getByTestId('confirm').click();
        await dialog.getByTestId('review-table').waitFor();
        found.push(...await wrong(tab, 'dialog'));
      }
      await tab.page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    await tab.campaign('big').getByRole('link').click();
    await tab.at('one-title').waitFor();
    found.push(...await wrong(tab, 'html'));
    assert.equal(await beyond(tab), 0, 'a campaign’s page scrolls sideways');
    await tab.at('all-campaigns').click();
    await tab.campaign('big').waitFor();
    // A menu, and an explanation.
    await tab.campaign('big').getByRole('button', { name: 'More for big' }).click();
    found.push(...await wrong(tab, '.pop:popover-open'));
    await tab.page.keyboard.press('Escape');
    await tab.page.getByRole('button', { name: 'What is meant: Rate now' }).click();
    found.push(...await wrong(tab, '.pop:popover-open'));
    assert.deepEqual(found, []);
    await stack.tidegate('resume', 'small', '--reason', 'the link is right');
  });
}

promise('axe finds nothing wrong in the page that asks for the token', async ({ stack, browser }) => {
  const guarded = await stack.console([], { TIDEGATE_CONSOLE_TOKEN: 'correct-horse-battery-staple' });
  for (const [, how] of LOOKS) {
    const tab = await browser.tab({ ...how, errors: /status of 401/ });
    await tab.page.goto(`${guarded.url}login`);
    await tab.page.evaluate(AXE);
    assert.deepEqual(await wrong(tab, 'html'), []);
    await tab.at('token').fill('not-the-token-of-it');
    await tab.page.keyboard.press('Enter');
    await tab.page.getByText('This is not the token').waitFor();
    assert.deepEqual([await wrong(tab, 'html'), await beyond(tab)], [[], 0]);
  }
});

promise('a campaign is paused with the keyboard alone, and the focus comes back to where it was', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  const { keyboard } = tab.page;
  const focused = () => tab.page.evaluate(() => {
    const at = /** @type {HTMLElement | null} */ (document.activeElement);
    return [at?.dataset.testid, at?.getAttribute('aria-label'), at?.closest('tr')?.dataset.testid ?? null];
  });
  const reach = async (/** @type {string} */ label) => {
    for (let steps = 0; steps < 80; steps++) {
      if ((await focused())[1] === label) return;
      await keyboard.press('Tab');
    }
    assert.fail(`80 times Tab do not lead to “${label}”`);
  };
  for (const [action, reason, label] of [['Pause', 'by keyboard', 'Resume small'], ['Resume', 'by keyboard again', 'Pause small']]) {
    await reach(`${action} small`);
    await keyboard.press('Enter');
    const dialog = await tab.dialog(action.toLowerCase());
    await until('the reason has the focus', async () => (await focused())[0] === 'reason');
    await keyboard.type(reason);
    await keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    assert.equal((await stack.history())[0].reason, reason);
    // The button that opened it, which now undoes it.
    await until('the focus is back', async () => {
      assert.deepEqual(await focused(), ['pause', label, 'campaign-small']);
      return true;
    });
  }
  await keyboard.press('?');
  await (await tab.dialog('help')).getByText('Pause all sending, or resume it').waitFor();
  await keyboard.press('Escape');
  await keyboard.press('w');
  await tab.dialog('weights');
  // The focus stays in the dialog.
  for (let steps = 0; steps < 20; steps++) {
    await keyboard.press('Tab');
    assert.ok(await tab.page.evaluate(() => document.activeElement === document.body || document.activeElement?.closest('dialog') !== null));
  }
});
