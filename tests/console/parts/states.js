// What the page says in each state that an operator may find at night.

import assert from 'node:assert/strict';

import { pretend, told } from '../lib/pretend.js';
import { promise } from '../lib/promise.js';

/** @typedef {import('../lib/promise.js').Site} Site */

const QUIET = { visible: 0, in_flight: 0, delayed: 0 };
const CALM = {
  rate: 0, failed: null, express: null, refused: 0, monitor: { failed: null, report: null },
};

let seen = 0;
/** A state of a stack whose campaigns are `big` and `small`, in which nothing happens. @param {Site} site @returns {Promise<any>} */
async function calm({ console }) {
  const state = await told(console);
  const { figures } = state;
  const { status } = figures;
  const campaigns = status.campaigns.map((/** @type {any} */ one) => ({ ...one, sent: 0, refused: 0, dead: 0, held: false, backlog: QUIET }));
  const rows = campaigns.map((/** @type {any} */ { name }) => ({ name, rate: 0, share: null, age_s: null, eta_s: null, sent: 0, waiting: 0, progress: null }));
  return {
    ...state, recent: [], dead: null, series: { t: [Date.now() / 1000], rate: [0], quota: [14], campaigns: { big: [0], express: [0], small: [0] } }, replay: null, forecast: { state: 'none', why: 'no campaign has mail' },
    figures: { ...figures, ...CALM, rows, status: {
      ...status, holds: [], limits: [], changes: [], campaigns, counters: {}, level: { level: 'clear', since: null },
      breaker: { state: 'allowing', since: null, until: null }, serving: { state: 'serving', last_window: null },
      waiting: { express: 0, campaigns: 0, merge: 0, limits: 0, rows: 0 }, runs: [], queues: { express: QUIET, merge: QUIET, dead_letters: QUIET },
    } },
  };
}

/** @param {Site} site @param {(state: any) => void} change @param {{width?: number, page?: string, age?: number}} [how] */
async function shown(site, change, { width = 1280, page = '', age = 0 } = {}) {
  const state = await calm(site);
  change(state);
  const tab = await site.browser.tab({ width, height: width < 500 ? 844 : 900 });
  await pretend(tab, `${site.console.url}${page}`, state, age);
  if (process.env.SEEN) await tab.page.screenshot({ path: `${process.env.SEEN}/${seen++}-${width}.png`, fullPage: true });
  return tab;
}

/** @param {any} state @param {string} name @param {any} campaign @param {any} [row] */
function set({ figures }, name, campaign, row = {}) {
  Object.assign(figures.status.campaigns.find((/** @type {any} */ one) => one.name === name), campaign);
  Object.assign(figures.rows.find((/** @type {any} */ one) => one.name === name), { sent: campaign.sent ?? 0, ...row });
}

const HOLD = { since: new Date().toISOString(), until: null, lifted_by: 'a mail that is accepted: one is tried every 30 s' };

promise('express mail that is held is counted, and nobody says that nothing waits', async (site) => {
  const held = (/** @type {any} */ { figures: { status } }) => {
    status.waiting.express = 102;
    status.queues.express = { ...QUIET, visible: 102 };
    status.holds = [{ ...HOLD, campaign: 'express', reason: 'refusals', what: 'one mail after the other is refused', detail: '10 in a row refused: NotFoundException: no template reset, to ***@example.com; ids reset-7' }];
  };
  const tab = await shown(site, held);
  const text = await tab.page.locator('.hero').innerText();
  assert.match(text, /102 mails wait: 102 express/);
  assert.match(text, /held: express/);
  assert.doesNotMatch(text, /[Nn]othing waits/);
  assert.equal(await tab.at('waiting-all').getAttribute('data-value'), '102');
  assert.match(await tab.page.locator('[data-tile=express]').innerText(), /102 waiting\s+Held: nothing of it is sent/);
  // A hold by a mail names it.
  assert.match(await tab.at('hold').innerText(), /ids reset-7/);
  await tab.page.locator('#legend').getByText('express', { exact: true }).waitFor();
  const sends = await shown(site, (state) => {
    held(state);
    state.figures.rate = 4;
  });
  assert.doesNotMatch(await sends.page.locator('#headline').innerText(), /Nothing waits/);
});

promise('a run has its bar, and says what of it is not enqueued yet', async (site) => {
  const began = new Date().toISOString();
  const run = { campaign: 'big', name: 'news', stage: 'waiting', host: 'laptop', began, rows: 3000, enqueued: 600, waiting: 200, sent: 390, failed: 10, cancelled: 0, to_come: 2400 };
  for (const width of [390, 1280]) {
    const tab = await shown(site, ({ figures: { status } }) => {
      status.runs = [run, { ...run, name: 'old', stage: 'cancelled', to_come: 0, waiting: 0, cancelled: 99, rest: ['old-rest'] }];
      status.waiting.rows = 2400;
    }, { width });
    const text = await tab.at('run-news').innerText();
    assert.match(text, /news waiting, for big, on laptop since/);
    assert.match(text, /390 of 3,000 sent, 10 failed, 200 waiting, 2,400 not enqueued yet/);
    assert.equal(await tab.at('run-news').getByRole('progressbar').getAttribute('aria-valuenow'), '13');
    assert.match(await tab.at('run-old').innerText(), /99 cancelled, 2,400 left to run old-rest/);
    assert.match(await tab.page.locator('.hero').innerText(), /2,400 mails wait: 2,400 not enqueued yet/);
  }
  const none = await shown(site, () => {});
  assert.equal(await none.page.locator('#runs-panel').isVisible(), false);
});

promise('what waits is the sum of all queues, and says where', async (site) => {
  const tab = await shown(site, ({ figures: { status } }) => {
    status.waiting = { express: 1, campaigns: 1200, merge: 14, limits: 30, rows: 5 };
  });
  assert.equal(await tab.at('waiting-all').getAttribute('data-value'), '1250');
  const text = '1 express, 1,200 of campaigns, 14 on the merge queue, 30 on limits’ queues, 5 not enqueued yet';
  assert.ok((await tab.page.locator('[data-tile=waiting]').innerText()).includes(text), text);
});

promise('a campaign of which mail was given up is not done', async (site) => {
  const tab = await shown(site, (state) => {
    set(state, 'big', { sent: 72, dead: 115 }, { progress: 72 / 187 });
    set(state, 'small', { sent: 911 }, { progress: 1 });
    state.figures.status.counters['cancelled.small'] = 2089;
  });
  const [big, small] = await Promise.all(['big', 'small'].map((name) => tab.campaign(name).innerText()));
  assert.match(big, /72 sent, 115 dead/);
  assert.match(big, /38\.5\s%, 115 dead/);
  assert.match(small, /911 sent, 2,089 cancelled/);
  for (const text of [big, small]) assert.doesNotMatch(text, /Done|100\s%/);
});

promise('a campaign that its limit closes says when it opens, and the limits’ page how much waits for it', async (site) => {
  const opens = new Date(Date.now() + 3_600_000);
  const closed = (/** @type {any} */ state) => {
    set(state, 'small', { backlog: { ...QUIET, visible: 40 } }, { waiting: 40 });
    state.figures.status.waiting.campaigns = 40;
    state.figures.status.limits = [{ key: 'campaign:small', limit: 'Mon-Fri 08:00-20:00 Europe/Berlin', per_second: null, closed: true, opens_at: opens.toISOString(), waiting: 40 }];
  };
  // In the last hour of a day it is tomorrow, and has its date.
  const at = `(\\d+ \\w+, )?${opens.toISOString().slice(11, 16)}`;
  const tab = await shown(site, closed);
  assert.match(await tab.campaign('small').innerText(), new RegExp(`Closed, opens ${at}`));
  assert.match(await tab.page.locator('.hero').innerText(), /Nothing is sent: what waits \(40 mails\) is held or closed[^]*closed by limits: small/);
  assert.equal(await tab.at('limits').isVisible(), false, 'limits have a page of their own');
  await tab.at('to-limits').click();
  await tab.page.getByText('closed until').waitFor();
  assert.match(await tab.at('limits').innerText(), new RegExp(`campaign:small[^]*closed until ${at}\\s+40`));
  assert.equal(await tab.page.locator('#chart').isVisible(), false);
  const none = await shown(site, () => {}, { page: '#limits' });
  await none.page.getByText('Nothing is limited but by the quota').waitFor();
  await none.at('open-limit').waitFor();
});

promise('a headline is a sentence that says what is so, and no raw error', async (site) => {
  const raw = 'MessageRejected: Sending paused for this account. For more information, please check the inbox of the email address associated with your AWS account.';
  const tab = await shown(site, ({ figures }) => {
    figures.failed = `dispatch failure: io error: error trying to connect: tcp connect error: ${'Connection refused; '.repeat(20)}`;
    figures.status.holds = [{ ...HOLD, campaign: null, reason: 'account', what: 'SES has stopped the account’s sending', detail: raw }];
  });
  assert.equal(await tab.page.locator('#headline').innerText(), 'Stopped: SES has stopped the account’s sending');
  assert.ok((await tab.at('hold').innerText()).includes(raw), 'the details stand below');
  assert.equal(await tab.at('connection').innerText(), 'The last look failed');
  const box = await tab.page.locator('#warnings li').boundingBox();
  assert.ok(box && box.height < 60, `${box?.height} px of an error`);
});

promise('an estimate that is over is not shown', async (site) => {
  const tab = await shown(site, (state) => {
    set(state, 'big', { backlog: { ...QUIET, visible: 9 } }, { waiting: 9 });
    state.figures.status.waiting.campaigns = 9;
    const ends_at = new Date(Date.now() - 1_200_000).toISOString();
    state.forecast = { state: 'ready', ends_at, earliest: ends_at, latest: ends_at, per_second: {}, campaigns: [{ name: 'big', ends_at, earliest: ends_at, latest: ends_at, left: 0 }] };
  });
  assert.doesNotMatch(await tab.page.locator('.hero').innerText(), /all sent at/);
  assert.equal(await tab.campaign('big').getByTestId('eta').innerText(), '–');
});

promise('nothing looks live while the figures are old: no colour, no state of now, another icon', async (site) => {
  const tab = await shown(site, (state) => {
    set(state, 'big', { sent: 50 }, { rate: 13.7, waiting: 900 });
    Object.assign(state.figures, { rate: 13.7, failed: 'no answer within 10 s' });
    state.figures.status.waiting.campaigns = 900;
  }, { age: 60 });
  await tab.page.locator('#headline[data-kind=blind]').waitFor();
  assert.equal(await tab.campaign('big').getByTestId('state').innerText(), 'Was: sending');
  for (const part of ['.tiles', '.chart', '.legend', '#campaigns']) {
    assert.match(await tab.page.locator(part).first().evaluate((element) => getComputedStyle(element).filter), /grayscale\(1\)/, part);
  }
  assert.match(await tab.page.title(), /^No figures since/);
  const icon = () => tab.page.locator('link[rel=icon]').getAttribute('href');
  assert.match(await icon() ?? '', /^data:/);
  assert.doesNotMatch(await tab.page.locator('#legend').innerText(), /\bnow\b/);
  await pretend(tab, site.console.url, await calm(site));
  assert.doesNotMatch(await icon() ?? '', /^data:/);
});

promise('the history has a page of its own, with all changes that the console keeps', async (site) => {
  const changes = Array.from({ length: 45 }, (_, at) => ({ at: new Date(Date.now() - at * 60_000).toISOString(), by: 'ada', action: 'weights', campaign: null, detail: `big ${at} → ${at + 1}`, reason: 'a try' }));
  const tab = await site.browser.tab({ width: 1280 });
  await tab.page.route('**/api/changes', (route) => route.fulfill({ json: changes }));
  const state = await calm(site);
  state.figures.status.changes = changes.slice(0, 20);
  await pretend(tab, site.console.url, state);
  assert.equal(await tab.at('operator-change').count(), 20);
  await tab.at('to-history').click();
  await tab.at('operator-change').nth(44).waitFor();
  assert.equal(await tab.page.locator('#tiles').isVisible(), false);
  assert.equal(await tab.at('to-history').getAttribute('aria-current'), 'page');
  // The question is on the first page, and leads there.
  await tab.page.getByRole('button', { name: 'Why does it wait?' }).click();
  await tab.at('why-id').waitFor();
  assert.equal(await tab.page.evaluate(() => document.activeElement?.getAttribute('data-testid')), 'why-id');
});

promise('on a phone campaigns come before figures, and no table is wider than its card', async (site) => {
  const crowd = (/** @type {any} */ state) => {
    set(state, 'big', { sent: 1_234_567, dead: 115, backlog: { ...QUIET, visible: 54_321 } }, { sent: 1_234_567, waiting: 54_321, rate: 12.4, progress: 0.957, eta_s: 4_400 });
    state.figures.status.limits = [{ key: 'domain:gmail.com+googlemail.com', limit: '5000/h, Mon-Fri 08:00-20:00 Europe/Berlin', per_second: 1.39, closed: false, opens_at: null, waiting: 2500 }];
    state.figures.status.queues.dead_letters = { ...QUIET, visible: 115 };
    const letter = { since: new Date().toISOString(), age_s: 5, message_id: 'm-1', id: 'a'.repeat(60), campaign: 'big', to: ['***@example.com'], code: 'ConfigurationSetDoesNotExistException', http_status: 400, attempts: 5, doubt: 'perhaps', foreign: null };
    const group = { key: 'ConfigurationSetDoesNotExistException', letters: 115, perhaps_sent: 2, oldest: null, newest: new Date().toISOString(), said: 'Configuration set <prod-newz> does not exist.' };
    state.dead = { read_at: new Date().toISOString(), whole: true, read: 115, unread: 0, groups: [group], campaigns: { big: [group] }, letters: [letter] };
  };
  for (const page of ['', '#limits', '#history', '#campaign=big']) {
    const tab = await shown(site, crowd, { width: 390, page });
    await tab.page.locator('[data-testid=dead] summary').evaluate((summary) => /** @type {HTMLElement} */ (summary).click());
    const wide = await tab.page.evaluate(() => [...document.querySelectorAll('.panel table')].filter((table) => {
      const [inner, outer] = [table, /** @type {Element} */ (table.closest('.panel'))].map((element) => element.getBoundingClientRect());
      return inner.width > 0 && inner.right > outer.right;
    }).map((table) => table.querySelector('caption')?.textContent));
    assert.deepEqual(wide, [], `on the page ${page}`);
    if (page) continue;
    const [campaigns, tiles] = await Promise.all(['#campaigns', '#tiles'].map((part) => tab.page.locator(part).boundingBox()));
    assert.ok(campaigns && tiles && campaigns.y < tiles.y, 'campaigns first');
  }
});
