// A page that stays open while its console ends and comes back knows that it missed something, and tells nothing twice.

import assert from 'node:assert/strict';

import { promise } from '../lib/promise.js';
import { until } from '../lib/wait.js';

/** The page may complain that nobody answers its requests. It must need nothing else: its files and icons are there. */
const GONE = /net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED) \(\S+\/api\//;

/** Leaves a mark that a reload would wipe out. @param {import('../lib/browser.js').Tab} tab */
async function mark(tab) {
  await tab.page.evaluate(() => {
    document.title = 'marked';
    Object.assign(globalThis, { marked: true });
  });
  return () => tab.page.evaluate(() => 'marked' in globalThis);
}

for (const signal of /** @type {const} */ (['SIGTERM', 'SIGKILL'])) {
  promise(`a console that ends by ${signal} and comes back tells the open page of the gap, what stands, and each later change once`, async ({ stack, browser }) => {
    const restarted = await stack.console();
    const tab = await browser.open(restarted, { errors: GONE });
    const stays = await mark(tab);
    const [before, meanwhile, after] = ['before', 'meanwhile', 'after'].map((when) => `${when} ${signal}`);
    await stack.tidegate('weights', 'small=20', '--reason', before);
    const told = async (/** @type {string} */ reason) => (await tab.events()).filter(({ detail }) => detail.includes(reason)).map(({ kind }) => kind);
    await until('the change before is told', async () => (await told(before)).length > 0);

    await restarted.stop(signal);
    await tab.page.locator('[data-testid=connection][data-state=lost]').waitFor();
    await stack.tidegate('pause', 'small', '--reason', meanwhile);
    await stack.tidegate('weights', '--reset', '--reason', meanwhile);
    await restarted.again();
    await tab.live();
    await tab.page.locator('[data-testid=event][data-kind=gap]').filter({ hasText: 'may be missing here' }).waitFor();
    await tab.at('hold').filter({ hasText: 'small is paused' }).getByText(meanwhile).waitFor();
    await stack.tidegate('resume', 'small', '--reason', after);
    await until('what happens now is told', async () => (await told(after)).length > 0);
    await tab.anew();

    assert.deepEqual(await told(before), ['change']);
    assert.deepEqual(await told(after), ['change']);
    const ends = (await tab.events()).filter(({ title }) => title === 'small is not paused any more');
    assert.equal(ends.length, 1);
    assert.equal((await tab.events()).filter(({ kind }) => kind === 'gap').length, 1);
    assert.ok(await stays(), 'the page was loaded anew');
  });
}

promise('a page whose console is silent says within five seconds since when nothing is known, and counts nothing down', async ({ stack, browser }) => {
  const silent = await stack.console();
  const tab = await browser.open(silent, { errors: GONE });
  const headline = tab.page.locator('#headline');
  await tab.anew();
  const thaw = silent.freeze();
  const frozen = Date.now();
  await tab.page.locator('#headline[data-kind=blind]').waitFor();
  assert.ok(Date.now() - frozen < 7_000, `after ${Date.now() - frozen} ms`);
  assert.match(await headline.innerText(), /^No figures since \d\d:\d\d:\d\d\.\sLast known: /);
  for (const text of await tab.page.locator('.eta-in').allInnerTexts()) assert.doesNotMatch(text, /^in /);
  const counting = () => tab.page.locator('#headline, #subline, #holds, #tiles').allInnerTexts();
  const [before] = [await counting(), await tab.page.waitForTimeout(2_500)];
  assert.deepEqual(await counting(), before);
  thaw();
  await tab.live();
  await until('the figures are of now', async () => (await headline.getAttribute('data-kind')) !== 'blind');
});
