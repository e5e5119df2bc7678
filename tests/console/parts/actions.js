// What the page's dialogs do is done, with who and why; what is not confirmed is not.

import assert from 'node:assert/strict';

import { promise } from '../lib/promise.js';
import { BIG, OPERATOR } from '../lib/stack.js';
import { until } from '../lib/wait.js';

/** @typedef {import('../lib/stack.js').Stack} Stack */

/** @param {Stack} stack @param {string | null} campaign */
async function pauses(stack, campaign) {
  const { holds } = await stack.status();
  return holds.filter((/** @type {any} */ hold) => hold.reason === 'paused' && hold.campaign === campaign);
}

promise('a campaign is paused and resumed with who and why, and the page shows it', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await tab.campaign('big').getByTestId('pause').click();
  await tab.confirm('pause', 'a typo in the subject', 'Ada');
  const [hold] = await pauses(stack, 'big');
  assert.match(hold.detail, /Ada.*a typo in the subject/);
  const [paused] = await stack.history();
  assert.deepEqual([paused.action, paused.campaign, paused.reason, paused.by], ['pause', 'big', 'a typo in the subject', `Ada, by the console of ${OPERATOR}`]);
  const shown = tab.at('hold').filter({ hasText: 'big is paused' });
  await shown.getByText('a typo in the subject').waitFor();
  await tab.campaign('big').locator('[data-testid=state][data-value=paused]').waitFor();
  await tab.at('operator-change').filter({ hasText: '“a typo in the subject”' }).waitFor();
  await tab.page.waitForFunction(() => document.querySelectorAll('[data-testid=event][data-kind=change]').length > 0);

  await shown.getByRole('button', { name: 'Resume' }).click();
  await tab.confirm('resume', 'the subject is corrected');
  assert.deepEqual(await pauses(stack, 'big'), []);
  const [resumed] = await stack.history();
  // Who acts is remembered.
  assert.deepEqual([resumed.action, resumed.campaign, resumed.reason, resumed.by], ['resume', 'big', 'the subject is corrected', `Ada, by the console of ${OPERATOR}`]);
  await shown.waitFor({ state: 'detached' });
  await tab.campaign('big').locator('[data-testid=state][data-value=sending]').waitFor();
});

promise('all sending is paused and resumed', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await tab.at('pause-all').click();
  const dialog = await tab.dialog('pause');
  await dialog.getByRole('radio', { name: '1 h' }).check();
  await tab.confirm('pause', 'the template is wrong');
  const [hold] = await pauses(stack, null);
  const lasts = (Date.parse(hold.until) - Date.parse(hold.since)) / 1000;
  assert.equal(Math.round(lasts), 3600);
  await tab.page.locator('[data-testid=headline][data-kind="held paused"]').waitFor();
  await until('nothing is sent any more', async () => {
    const before = (await stack.status()).counters.sent;
    await tab.anew();
    return (await stack.status()).counters.sent === before;
  });
  await tab.page.locator('[data-testid=pause-all][data-action=resume]').click();
  await tab.confirm('resume', 'the template is right');
  assert.deepEqual(await pauses(stack, null), []);
  const sent = (await stack.status()).counters.sent;
  await until('mail is sent again', async () => (await stack.status()).counters.sent > sent);
});

promise('weights are set all at once, and their shares come to one', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await tab.at('open-weights').click();
  let dialog = await tab.dialog('weights');
  await dialog.getByTestId('weight-big').fill('30');
  await dialog.getByTestId('weight-small').fill('90');
  const shares = await dialog.locator('[data-testid^=share-]').allInnerTexts();
  assert.deepEqual(shares.map(parseFloat), [25, 75]);
  await tab.confirm('weights', 'the small one is late');
  const weights = async () => (await stack.status()).campaigns.map((/** @type {any} */ { weight }) => weight);
  assert.deepEqual(await weights(), [30, 90]);
  await until('the page shows the weights', async () => {
    const shown = (await tab.figures()).campaigns;
    assert.deepEqual(shown.map(({ weight, share }) => [weight, share]), [[30, 25], [90, 75]]);
    return true;
  });

  await tab.at('open-weights').click();
  dialog = await tab.dialog('weights');
  await dialog.getByTestId('reset-weights').click();
  await tab.confirm('weights', 'it has caught up');
  assert.deepEqual(await weights(), [90, 10]);
  const [reset, set] = await stack.history();
  assert.deepEqual([set.action, set.reason, reset.reason], ['weights', 'the small one is late', 'it has caught up']);
});

promise('a campaign is limited from its menu, and the limit removed', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await tab.page.getByTestId('campaign-small').getByRole('button', { name: 'More for small' }).click();
  await tab.page.getByText('Limit its rate or hours').click();
  const dialog = await tab.dialog('limit');
  await dialog.getByTestId('limit-rate').fill('180/h');
  await dialog.getByTestId('limit-hours').fill('00:00-24:00');
  await tab.confirm('limit', 'support can answer no more');
  const limits = async () => (await stack.status()).limits.map((/** @type {any} */ { key, limit }) => `${key} ${limit}`);
  const [limited] = await limits();
  assert.match(limited, /^campaign:small 3\/m, .*00:00-24:00/);
  await tab.at('to-limits').click();
  await tab.page.getByTestId('remove-limit').click();
  await tab.confirm('no-limit', 'more people');
  assert.deepEqual(await limits(), []);
  const [removed, set] = await stack.history();
  assert.deepEqual([set.action, removed.action, removed.reason], ['limit', 'limit', 'more people']);
});

promise('the rate is capped, and the cap taken away', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await tab.at('open-rate').click();
  let dialog = await tab.dialog('rate');
  await dialog.getByTestId('confirm').click();
  await dialog.getByTestId('cap').fill('5');
  await tab.confirm('rate', 'another system sends');
  const quota = async () => (await stack.status()).quota;
  assert.equal((await quota()).operator_cap, 5);
  await until('the page shows the cap', async () => (await tab.figures()).quota === '5');
  // What it was, and not what a sender may have had in hand: the mails of ten seconds.
  await until('no more than the cap is sent', async () => {
    const { rate } = await tab.figures();
    return rate !== null && rate > 0 && rate <= 5;
  });
  await tab.at('open-rate').click();
  dialog = await tab.dialog('rate');
  await dialog.getByRole('radio', { name: 'No cap' }).check();
  await tab.confirm('rate', 'it is done');
  assert.deepEqual([(await quota()).operator_cap, (await quota()).in_force], [null, 14]);
  await until('the page shows the quota', async () => (await tab.figures()).quota === '14');
});

promise('without a reason, or by Esc, nothing changes', async ({ stack, console, browser }) => {
  const tab = await browser.open(console, { errors: /status of 400/ });
  const before = [(await stack.status()).holds, await stack.history()];
  let asked = 0;
  tab.page.on('request', (request) => {
    if (request.method() === 'POST') asked += 1;
  });
  const button = tab.campaign('big').getByTestId('pause');
  await button.click();
  const dialog = await tab.dialog('pause');
  for (const reason of ['', '   ', 'x'.repeat(201)]) {
    await dialog.getByTestId('reason').fill(reason);
    await dialog.getByTestId('confirm').click();
    await dialog.getByText(/The reason (is missing|has 201 characters)/).waitFor();
    assert.equal(await dialog.getByTestId('reason').getAttribute('aria-invalid'), 'true');
  }
  await dialog.getByTestId('reason').fill('it was begun');
  await tab.page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  // What was typed is there again.
  await button.click();
  assert.equal(await (await tab.dialog('pause')).getByTestId('reason').inputValue(), 'it was begun');
  await tab.at('cancel').click();
  await tab.anew();
  assert.deepEqual([asked, (await stack.status()).holds, await stack.history()], [0, ...before]);
  // The server does not trust the page with it.
  const { status, body } = await tab.page.evaluate(async () => {
    const { csrf } = await (await fetch('/api/session')).json();
    const response = await fetch('/api/steer', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Tidegate-Csrf': csrf }, body: JSON.stringify({ action: 'pause', campaign: 'big', reason: ' ' }) });
    return { status: response.status, body: await response.json() };
  });
  assert.deepEqual([status, body.field], [400, 'reason']);
  assert.deepEqual((await stack.status()).holds, before[0]);
});

promise('“why” says of a mail what it waits for if it waits, or that it was sent', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  const answer = tab.page.locator('#why-answer');
  const ask = async (/** @type {string} */ id, /** @type {string} */ verdict) => {
    await tab.at('why-id').fill(id);
    await tab.at('why-ask').click();
    await answer.filter({ hasText: id }).locator(`[data-testid=why-verdict][data-value=${verdict}]`).waitFor();
    return answer.innerText();
  };
  const waits = (/** @type {string} */ verdict) => tab.at('why-waits').locator(`[data-value=${verdict}]`).waitFor();
  await ask(`big-${BIG - 1}`, 'unrecorded');
  await tab.at('why-campaign').selectOption('big');
  await ask(`big-${BIG - 3}`, 'unrecorded');
  await waits('waiting');
  await stack.tidegate('pause', 'big', '--reason', 'a look at one mail');
  assert.match(await ask(`big-${BIG - 2}`, 'unrecorded'), /a look at one mail/);
  await waits('paused');
  await stack.tidegate('resume', 'big', '--reason', 'it is as it should be');
  assert.match(await ask('big-0', 'sent'), /big-0/);
});
