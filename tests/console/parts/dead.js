// Dead letters: made, masked, explained, the hold lifted, replayed after review to the end.

import assert from 'node:assert/strict';

import { promise } from '../lib/promise.js';
import { until } from '../lib/wait.js';

/** @typedef {import('../lib/stack.js').Stack} Stack */

const CODE = 'BadRequestException';
const ADDRESS = /small-r\d{6}@example\.com/;

/** How many dead letters there are of refused mails. @param {Stack} stack @returns {Promise<{id: string, code: string, to: string[]}[]>} */
async function refused(stack) {
  const { letters } = JSON.parse(await stack.tidegate('dead', 'list', '--json'));
  return letters.filter((/** @type {any} */ letter) => letter.code === CODE);
}

promise('a campaign that SES refuses is held; its letters are counted, masked and explained', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  // Express mail: no other waits before it.
  await stack.put('express', 'Dear Ada,');
  // Ten in a row hold it: with most of the slots it has them in two seconds.
  await stack.tidegate('weights', 'small=900', '--reason', 'the small one is urgent');
  await stack.ses({ faults: [`${CODE},status=400,to=small-*`] });
  await tab.at('hold').filter({ hasText: 'small is held: refusals' }).waitFor();
  await tab.campaign('small').locator('[data-testid=state][data-value=held]').waitFor();
  await stack.tidegate('weights', '--reset', '--reason', 'it was not that urgent');
  await until('as many letters on the page as on the queue', async () => {
    const { dead_letters: queue } = (await stack.status()).queues;
    // Whoever reads them hides them for a moment: they are there all the same.
    const there = queue.visible + queue.in_flight;
    await tab.at('dead-read').click();
    const group = tab.at('dead-group').filter({ hasText: CODE });
    const letters = Number(await group.locator('[data-value]').first().getAttribute('data-value'));
    assert.deepEqual([letters, (await tab.figures()).dead], [(await refused(stack)).length, there]);
    assert.ok(letters >= 10 && there === letters + 1, `${there} letters`);
    return true;
  });
  await tab.page.locator('[data-testid=dead] summary').click();
  const rows = await tab.at('dead-letter').allInnerTexts();
  assert.ok(rows.some((row) => row.includes('***@example.com')), rows.join('\n'));
  const html = await tab.page.content();
  assert.doesNotMatch(html, ADDRESS, 'a recipient is on the page');
  const [letter] = await refused(stack);
  await tab.at('why-id').fill(letter.id);
  await tab.at('why-ask').click();
  await tab.page.locator('[data-testid=why-verdict][data-value=dead]').waitFor();
  assert.match(await tab.page.locator('#why-answer').innerText(), new RegExp(CODE));

  const api = await tab.page.evaluate(async () => {
    const { csrf } = await (await fetch('/api/session')).json();
    return (await fetch('/api/dead/read', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Tidegate-Csrf': csrf }, body: '{}' })).text();
  });
  assert.ok(api.includes('***@example.com') && !ADDRESS.test(api), api);
});

promise('recipients are shown by a console that is told to show them', async ({ stack, browser }) => {
  const shows = await stack.console(['--show-addresses']);
  const tab = await browser.open(shows);
  await tab.at('dead-read').click();
  await tab.at('dead-letter').first().waitFor({ state: 'attached' });
  await until('an address', async () => ADDRESS.test(await tab.page.content()));
  await shows.stop('SIGTERM');
});

promise('a hold is lifted, and the letters of the mails that were refused are replayed to the end', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await stack.ses({ faults: [] });
  const letters = await refused(stack);
  await tab.at('hold').filter({ hasText: 'small is held: refusals' }).getByRole('button', { name: /^Lift/ }).click();
  await tab.confirm('lift', 'SES takes them again');
  assert.deepEqual((await stack.status()).holds, []);
  assert.deepEqual((await stack.history()).slice(0, 1).map(({ action, campaign, reason }) => [action, campaign, reason]), [['lift', 'small', 'SES takes them again']]);
  await tab.at('hold').waitFor({ state: 'detached' });

  // The page knows the reasons once it has read the letters.
  await tab.at('dead-group').filter({ hasText: CODE }).waitFor();
  await tab.at('dead-replay').click();
  const dialog = await tab.dialog('replay');
  await dialog.getByTestId('replay-code').selectOption(CODE);
  await dialog.getByTestId('confirm').click();
  await dialog.getByTestId('review-table').waitFor();
  const numbers = await dialog.getByTestId('review-table').locator('[data-value]').evaluateAll((cells) => cells.map((cell) => Number(cell.getAttribute('data-value'))));
  assert.deepEqual(numbers, [letters.length, letters.length, 0, 0, 0], 'letters, to send, sent already, perhaps sent, cannot');
  const sent = new Set(await stack.arrived());
  await dialog.getByTestId('confirm').click();
  await dialog.getByTestId('confirm').click();
  await dialog.getByText('The reason is missing').waitFor();
  assert.equal((await refused(stack)).length, letters.length, 'nothing is replayed without a reason');
  await dialog.getByTestId('reason').fill('SES takes them again');
  await dialog.getByTestId('replay-rate').fill('50');
  await dialog.getByTestId('confirm').click();
  await dialog.getByText(`Replay ended: ${letters.length} of ${letters.length} mails sent.`).waitFor();
  await dialog.getByTestId('cancel').click();

  assert.deepEqual(await refused(stack), []);
  const keys = letters.map(({ id }) => `small-r${id.slice('small-'.length).padStart(6, '0')}@example.com`);
  assert.ok(keys.every((key) => !sent.has(key)));
  await until('each of them arrives', async () => {
    const arrived = await stack.arrived();
    return keys.every((key) => arrived.includes(key));
  });
  const copies = (await stack.arrived()).filter((key) => keys.includes(key));
  assert.equal(copies.length, keys.length, 'none arrives twice');
  // The one that is no mail stays.
  await until('one letter is left', async () => (await tab.figures()).dead === 1);
  await tab.at('dead-replay').click();
  await (await tab.dialog('replay')).getByTestId('confirm').click();
  await (await tab.dialog('replay')).getByText('None of these letters would be sent again.').waitFor();
});
