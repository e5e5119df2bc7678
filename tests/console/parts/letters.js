// One dead letter: the last part, for it discards the letter that other parts look at.

import assert from 'node:assert/strict';

import { promise } from '../lib/promise.js';
import { until } from '../lib/wait.js';

promise('times of our sentences are in the browser’s zone, and what others wrote stays as it is', async ({ browser, console }) => {
  const tab = await browser.open(console);
  const shown = await tab.page.evaluate(async () => {
    const { parse } = await import(/** @type {string} */ (new URL('./api.js', /** @type {HTMLScriptElement} */ (document.querySelector('script[type=module]')).src).href));
    const at = 'by 2026-11-20 20:36:07 UTC';
    return parse(JSON.stringify({ lets_go: at, body: at, said: at, reason: at }));
  });
  const { lets_go: ours, ...others } = shown;
  assert.match(ours, /^by [^Z]*20:36/);
  assert.doesNotMatch(ours, /UTC/);
  for (const text of Object.values(others)) assert.equal(text, 'by 2026-11-20 20:36:07 UTC');
});

promise('a dead letter is corrected after a review, and a masked address means the one that stood there', async ({ browser, console }) => {
  const tab = await browser.open(console, { errors: /status of 400/ });
  await tab.readDeadLetters();
  await tab.page.locator('[data-testid=dead] summary').click();
  await tab.oneLetter();
  await tab.at('letter-link').click();
  const letter = await tab.dialog('letter');
  await letter.getByText('Dead-lettered').waitFor();
  await letter.getByTestId('letter-correct').click();
  const form = await tab.dialog('correct');
  await form.getByTestId('corrected').fill('{"to": "***@example.com", "from": "news@example.com", "subject": "Hi", "text": "Hello"}');
  await form.getByTestId('confirm').click();
  await form.getByText('write each in full').waitFor();
  await form.getByTestId('cancel').click();
  // A draft outlives the dialog.
  await tab.at('letter-link').click();
  await (await tab.dialog('letter')).getByTestId('letter-correct').click();
  const again = await tab.dialog('correct');
  assert.match(await again.getByTestId('corrected').inputValue(), /\*\*\*@example.com/);
  await again.getByTestId('corrected').fill('{"to": "ada@example.com", "from": "news@example.com", "subject": "Hi", "text": "Hello"}');
  await again.getByTestId('confirm').click();
  const replay = await tab.dialog('replay');
  await replay.getByText('1 mail would be sent to its campaign again').waitFor();
  await replay.getByTestId('cancel').click();
});

promise('a dead letter has an address, shows what is known of it, and is discarded with a reason', async ({ browser, console, stack }) => {
  const tab = await browser.open(console);
  await tab.readDeadLetters();
  await tab.page.locator('[data-testid=dead] summary').click();
  await tab.oneLetter();
  await tab.at('letter-link').click();
  const address = tab.page.url();
  assert.match(address, /#letter=[\w-]+$/);
  const dialog = await tab.dialog('letter');
  await dialog.getByTestId('letter').getByText('Dead-lettered').waitFor();
  const shown = await dialog.getByTestId('letter').innerText();
  assert.match(shown, /NotJson/);
  assert.match(shown, /Body, \d+ bytes/);
  await dialog.getByTestId('cancel').click();
  assert.doesNotMatch(tab.page.url(), /letter/);

  // A key that is held opens the letter, and presses nothing in it.
  await tab.at('letter-link').focus();
  await tab.page.keyboard.down('Enter');
  const held = await tab.dialog('letter');
  await tab.page.keyboard.down('Enter');
  await held.getByTestId('letter').getByText('Dead-lettered').waitFor();
  await tab.page.keyboard.up('Enter');
  await tab.page.keyboard.press('Escape');
  await held.waitFor({ state: 'detached' });

  const linked = await browser.tab();
  await linked.page.goto(address);
  const again = await linked.dialog('letter');
  await again.getByTestId('letter').getByText('Dead-lettered').waitFor();
  await again.getByTestId('confirm').click();
  await again.getByText('The reason is missing').waitFor();
  await linked.confirm('letter', 'no mail at all');
  await until('no letter is left', async () => (await linked.figures()).dead === 0);
  const [made] = await stack.history();
  assert.deepEqual([made.action, made.reason], ['discard', 'no mail at all']);

  const unknown = await browser.tab({ errors: /status of 400/ });
  await unknown.page.goto(address);
  await (await unknown.dialog('letter')).getByText('there is no dead letter').waitFor();
});
