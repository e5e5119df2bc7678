// A campaign's own page, many campaigns, and what is taken away as a file.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import { promise } from '../lib/promise.js';
import { until } from '../lib/wait.js';

/** Shows as many campaigns as if the stack had them: the figures of its own, again and again under other names. Newer figures of the real stack are replaced within 50 ms. @param {import('playwright-core').Page} page @param {number} many */
async function pretend(page, many) {
  await page.evaluate(async (wanted) => {
    const { model, takeFigures } = await import(/** @type {string} */ (new URL('./model.js', /** @type {HTMLScriptElement} */ (document.querySelector('script[type=module]')).src).href));
    const name = (/** @type {number} */ at) => `campaign-${String(at).padStart(3, '0')}`;
    const multiply = (/** @type {any[]} */ list) => Array.from({ length: wanted }, (_, at) => ({ ...list[at % list.length], name: name(at), waiting: at * 10, weight: at }));
    Object.assign(window, { pretended: (/** @type {any} */ figures) => ({
      ...figures, rows: multiply(figures.rows), status: { ...figures.status, campaigns: multiply(figures.status.campaigns) },
    }) });
    const take = () => takeFigures(Reflect.get(window, 'pretended')(model.figures));
    take();
    if (!Reflect.has(window, 'pretending')) Object.assign(window, { pretending: setInterval(take, 50) });
  }, many);
}

promise('a campaign has a page of its own, with what is its alone', async ({ browser, console, stack }) => {
  const tab = await browser.open(console);
  await tab.campaign('small').getByRole('link', { name: 'small' }).click();
  assert.match(tab.page.url(), /#campaign=small$/);
  await tab.at('one-title').getByText('small', { exact: true }).waitFor();
  for (const hidden of ['waiting-all', 'open-weights', 'campaign-big']) assert.equal(await tab.at(hidden).isVisible(), false, hidden);
  const { campaigns } = await stack.status();
  const sent = Number(await tab.at('of-sent').getAttribute('data-value'));
  assert.ok(Math.abs(sent - (campaigns.find((/** @type {any} */ { name }) => name === 'small')?.sent ?? 0)) < 60, `${sent}`);
  assert.equal(await tab.page.locator('#legend').getByText('big', { exact: true }).count(), 0);
  for (const event of await tab.at('event').allInnerTexts()) assert.match(event, /small/);

  // The address is enough for another browser; a name that is none says so.
  const linked = await browser.tab();
  await linked.page.goto(tab.page.url());
  await linked.at('one-title').getByText('small', { exact: true }).waitFor();
  await linked.page.goto(`${console.url}#campaign=${encodeURIComponent('no & such')}`);
  await linked.page.getByText('This stack has no campaign of this name.').waitFor();
  await linked.at('all-campaigns').click();
  await linked.campaign('big').waitFor();
  await tab.page.goBack();
  await tab.campaign('big').waitFor();
});

promise('of 200 campaigns those that are asked for are found, in the order that is asked for', async ({ browser, console }) => {
  const tab = await browser.open(console);
  assert.equal(await tab.at('campaigns-search').isVisible(), false, 'two need no search');
  await pretend(tab.page, 200);
  const names = () => tab.page.locator('.campaigns .name-text').allInnerTexts();
  const asked = (/** @type {(found: string[]) => boolean | Promise<boolean>} */ holds, /** @type {string} */ what) => until(what, async () => {
    await pretend(tab.page, 200);
    await tab.page.evaluate(() => new Promise(requestAnimationFrame));
    const found = await names();
    if (await holds(found)) return true;
    throw new Error(`${found.length}: ${found.slice(0, 5)}`);
  });
  await asked((found) => found.length === 50, 'the first fifty');
  await tab.at('campaigns-all').click();
  await asked((found) => found.length === 200, 'all');
  await tab.at('campaigns-order').selectOption('waiting');
  await asked((found) => found[0] === 'campaign-199' && found[199] === 'campaign-000', 'the most waiting first');
  // The stack's own two campaigns may come between two looks, or between the field's focus and its text, which is lost then: so both are asked again.
  const search = (/** @type {string} */ text) => tab.at('campaigns-search').fill(text, { timeout: 2_000 });
  const counted = async () => (await tab.page.locator('#campaigns-count').innerText()).includes('10 of 200');
  await asked(async (found) => (found.length === 10 && found[0] === 'campaign-019' && await counted()) || search('-01').then(() => false), 'those with -01');
  await asked(async (found) => found.length === 0 || search('nothing like it').then(() => false), 'none');
  await tab.page.getByText('No campaign is like that.').waitFor();
});

promise('the chart’s figures are saved as comma-separated values, and the chart as a picture', async ({ browser, console }) => {
  const tab = await browser.open(console);
  await tab.page.locator('#chart canvas').waitFor();
  await tab.anew();
  const saved = async (/** @type {string} */ button) => {
    const [download] = await Promise.all([tab.page.waitForEvent('download'), tab.at(button).click()]);
    return { name: download.suggestedFilename(), content: await readFile(/** @type {string} */ (await download.path())) };
  };
  const csv = await saved('as-csv');
  assert.match(csv.name, /^tidegate-[0-9T-]+\.csv$/);
  const [head, ...lines] = csv.content.toString().trim().split('\r\n');
  assert.equal(head, 'time,all,quota,big,express,small');
  assert.ok(lines.length > 2 && lines.every((line) => /^\d{4}-\d\d-\d\dT[\d:.]+Z(,[\d.]*){5}$/.test(line)), lines.slice(0, 3).join(' '));
  const png = await saved('as-picture');
  assert.deepEqual([...png.content.subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]);
  // On a campaign's page it is that campaign alone.
  await tab.page.goto(`${console.url}#campaign=small`);
  await tab.at('one-title').waitFor();
  assert.match((await saved('as-csv')).content.toString(), /^time,all,quota,small\r\n/);
});

promise('the chart goes back six hours and two days, from the console’s own memory', async ({ browser, console }) => {
  const tab = await browser.open(console);
  await tab.page.locator('#chart canvas').waitFor();
  for (const span of ['6h', '2d']) {
    const [answer] = await Promise.all([
      tab.page.waitForResponse((response) => response.url().endsWith(`/api/history?span=${span}`)),
      tab.at('range').locator(`label:has([value="${span}"])`).click(),
    ]);
    const { series } = await answer.json();
    assert.ok(series.t.length >= 1, span);
  }
  await tab.at('range').locator('label:has([value="5"])').click();
  await tab.anew();
});

promise('alarms that ring are said, and the past before the console comes from CloudWatch', async ({ browser, stack }) => {
  const named = /<AlarmName>([^<]*-dead-letters)<\/AlarmName>/.exec(await stack.cloudwatch({ Action: 'DescribeAlarms' }))?.[1] ?? '';
  await stack.cloudwatch({ Action: 'SetAlarmState', AlarmName: named, StateValue: 'ALARM', StateReason: 'a letter is there' });
  const past = new Date(Date.now() - 3_600_000).toISOString();
  for (const [place, dimension] of [['Function', 'poller'], ['Campaign', 'big']].entries()) {
    await stack.cloudwatch({
      Action: 'PutMetricData', Namespace: 'Tidegate', 'MetricData.member.1.MetricName': 'Sent', 'MetricData.member.1.Value': `${600 - 60 * place}`,
      'MetricData.member.1.Timestamp': past, 'MetricData.member.1.Unit': 'Count',
      'MetricData.member.1.Dimensions.member.1.Name': dimension[0], 'MetricData.member.1.Dimensions.member.1.Value': dimension[1],
      'MetricData.member.1.Dimensions.member.2.Name': 'Stack', 'MetricData.member.1.Dimensions.member.2.Value': 'tidegate',
    });
  }
  // One that has asked for neither yet.
  const console = await stack.console();
  const tab = await browser.open(console);
  await tab.page.getByText(`The alarm ${named} rings`).waitFor();
  assert.equal(await tab.at('alarms').innerText(), '1');
  const { series } = await (await fetch(`${console.url}api/history?span=6h`)).json();
  const [at] = series.rate.map((/** @type {number} */ rate, /** @type {number} */ place) => (rate === 10 ? place : -1)).filter((/** @type {number} */ place) => place >= 0);
  assert.equal(series.campaigns.big[at], 9);
  assert.ok(Math.abs(series.t[at] * 1_000 - Date.parse(past)) < 61_000);
  await stack.cloudwatch({ Action: 'SetAlarmState', AlarmName: named, StateValue: 'OK', StateReason: 'as before' });
});
