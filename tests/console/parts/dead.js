// Dead letters: made, masked, explained, the hold lifted, replayed after review to the end.

import assert from 'node:assert/strict';

import { promise } from '../lib/promise.js';
import { until } from '../lib/wait.js';

/** @typedef {import('../lib/stack.js').Stack} Stack */

const CODE = 'BadRequestException';
/** Express mail, which arrives as soon as SES takes it. */
const EXPRESS = ['one', 'two', 'three'].map((name) => `${name}@refused.example`);
const ADDRESS = /small-r\d{6}@example\.com|(one|two|three)@refused\.example/;

/** How many dead letters there are. Whoever reads them hides them for a moment: they are there all the same. @param {Stack} stack */
async function there(stack) {
  const { visible, in_flight: hidden } = (await stack.status()).queues.dead_letters;
  return visible + hidden;
}

/** The id of a mail that was refused. */
let refused = '';

promise('a campaign that SES refuses is held; its letters are counted, masked and explained', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  // Express mail: no other waits before it.
  await stack.put('express', 'Dear Ada,');
  // Ten in a row hold it: with most of the slots it has them in two seconds.
  await stack.tidegate('weights', 'small=900', '--reason', 'the small one is urgent');
  await stack.ses({ faults: [`${CODE},status=400,to=small-*`, `${CODE},status=400,to=*@refused.example`] });
  for (const to of EXPRESS) await stack.put('express', JSON.stringify({ id: `express-${to.split('@')[0]}`, to_address: to, from_address: 'news@example.org', subject: 'Code', body: '1234' }));
  const hold = tab.at('hold').filter({ hasText: 'small is held: one mail after the other is refused' });
  await hold.waitFor();
  // Ten hold it; those that were under way when it had them count too.
  assert.match(await hold.innerText(), /[1-9]\d in a row refused: .*ids small-\d+/, 'it names its mails');
  await until('its row says how many are dead', async () => /\d+ dead/.test(await tab.campaign('small').innerText()));
  await tab.campaign('small').locator('[data-testid=state][data-value=held]').waitFor();
  await stack.tidegate('weights', '--reset', '--reason', 'it was not that urgent');
  await until('as many letters on the page as on the queue', async () => {
    const before = await there(stack);
    await tab.at('dead-read').click();
    await tab.page.locator('[data-testid=dead-read][aria-busy=false]').waitFor();
    const groups = await tab.at('dead-group').filter({ hasText: CODE }).locator('td[data-value]').all();
    let letters = 0;
    for (const group of groups) letters += Number(await group.getAttribute('data-value'));
    // All but the one that is no mail.
    assert.deepEqual([letters, (await tab.figures()).dead], [before - 1, before]);
    return letters >= 10 + EXPRESS.length && before === await there(stack);
  });
  await tab.page.locator('[data-testid=dead] summary').click();
  const rows = await tab.at('dead-letter').allInnerTexts();
  assert.ok(rows.some((row) => row.includes('***@example.com')), rows.join('\n'));
  const html = await tab.page.content();
  assert.doesNotMatch(html, ADDRESS, 'a recipient is on the page');
  const { letters } = JSON.parse(await stack.tidegate('dead', 'list', '--code', CODE, '--campaign', 'small', '--json'));
  refused = letters[0].id;
  await tab.at('why-id').fill(refused);
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
  // A reader that ends has letters in hand, which are hidden from the next for half a minute.
  await tab.page.locator('[data-testid=dead-read][aria-busy=false]').waitFor();
});

promise('a hold is lifted, and the letters of the mails that were refused are replayed to the end', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await stack.ses({ faults: [] });
  await tab.at('hold').filter({ hasText: 'small is held: one mail after the other is refused' }).getByRole('button', { name: /^Lift/ }).click();
  await tab.confirm('lift', 'SES takes them again');
  assert.deepEqual((await stack.status()).holds, []);
  assert.deepEqual((await stack.history()).slice(0, 1).map(({ action, campaign, reason }) => [action, campaign, reason]), [['lift', 'small', 'SES takes them again']]);
  await tab.at('hold').waitFor({ state: 'detached' });

  // The page knows the reasons once it has read the letters.
  await tab.readDeadLetters();
  await tab.at('dead-replay').click();
  const dialog = await tab.dialog('replay');
  await dialog.getByTestId('replay-code').selectOption(CODE);
  const letters = await until('the review shows all letters', async () => {
    const all = await there(stack) - 1;
    await dialog.getByTestId('confirm').click();
    await dialog.getByTestId('review-table').waitFor();
    try {
      // Letters, to send, sent already, perhaps sent, cannot: of each campaign.
      const numbers = await dialog.getByTestId('review-table').locator('tbody tr').evaluateAll((rows) => rows.map((row) => [
        row.querySelector('th')?.textContent, ...[...row.querySelectorAll('[data-value]')].map((cell) => Number(cell.getAttribute('data-value'))),
      ]));
      const small = all - EXPRESS.length;
      assert.deepEqual(numbers, [['express', EXPRESS.length, EXPRESS.length, 0, 0, 0], ['small', small, small, 0, 0, 0]]);
      return all;
    } catch (error) {
      await dialog.getByTestId('replay-back').click();
      throw error;
    }
  });
  assert.ok(!(await stack.arrived()).some((to) => EXPRESS.includes(to)));
  await dialog.getByTestId('confirm').click();
  await dialog.getByTestId('confirm').click();
  await dialog.getByText('The reason is missing').waitFor();
  assert.equal(await there(stack), letters + 1, 'nothing is replayed without a reason');
  await dialog.getByTestId('reason').fill('SES takes them again');
  await dialog.getByTestId('replay-rate').fill('50');
  await dialog.getByTestId('confirm').click();
  await dialog.getByText(`Replay ended: ${letters} of ${letters} mails sent.`).waitFor();
  await dialog.getByTestId('cancel').click();

  assert.equal(await there(stack), 1);
  await until('each of the express mails arrives', async () => {
    const arrived = await stack.arrived();
    return EXPRESS.every((to) => arrived.includes(to));
  });
  // The others wait behind their campaign's mail.
  assert.equal(JSON.parse(await stack.tidegate('why', refused, '--campaign', 'small', '--json')).if_it_waits.verdict, 'waiting');
  await tab.anew();
  const copies = (await stack.arrived()).filter((to) => EXPRESS.includes(to));
  assert.deepEqual(copies.sort(), [...EXPRESS].sort(), 'none arrives twice');
  // The one that is no mail stays.
  await until('one letter is left', async () => (await tab.figures()).dead === 1);
  await tab.at('dead-replay').click();
  await (await tab.dialog('replay')).getByTestId('confirm').click();
  await (await tab.dialog('replay')).getByText('None of these letters would be sent again.').waitFor();
});
