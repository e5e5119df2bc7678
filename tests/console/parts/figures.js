// What the page shows is what stands.

import assert from 'node:assert/strict';

import { pretend, told } from '../lib/pretend.js';
import { promise } from '../lib/promise.js';
import { OPERATOR } from '../lib/stack.js';
import { until } from '../lib/wait.js';

/** @typedef {Awaited<ReturnType<import('../lib/browser.js').Tab['figures']>>} Shown */
/** @typedef {{name: string, sent: number, weight: number, share: number, held: boolean, backlog: {visible: number, in_flight: number, delayed: number}}} Campaign */

/** What the page must show of a status, as the page tells it. @param {any} status */
function expected(status) {
  const waiting = (/** @type {Campaign} */ { backlog }) => backlog.visible + backlog.in_flight + backlog.delayed;
  const campaigns = /** @type {Campaign[]} */ (status.campaigns);
  return {
    quota: String(status.quota.in_force),
    daily: status.quota.daily.sent,
    waiting: Object.values(status.waiting).reduce((/** @type {number} */ sum, many) => sum + many, 0),
    dead: status.queues.dead_letters.visible + status.queues.dead_letters.in_flight,
    campaigns: campaigns.map((campaign) => ({
      name: campaign.name, sent: campaign.sent, waiting: waiting(campaign), weight: campaign.weight,
      share: Number((campaign.share * 100).toFixed(1)), state: campaign.held || status.holds.length ? 'paused' : 'sending',
    })),
  };
}

promise('the run names the link of a console of its own', async ({ stack }) => {
  const link = /Console: (http:\S+)/.exec(stack.local.err)?.[1];
  assert.ok(link, stack.local.err);
  const session = await (await fetch(`${link}api/session`)).json();
  assert.deepEqual([session.local, session.operator, session.token_required], [true, OPERATOR, false]);
});

promise('while mail is sent, what the page says was sent lies between what the stack says before and after', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  let rounds = 0;
  // A round in which nothing is sent proves nothing: a busy machine sends nothing for a second.
  await until('three rounds in which mail is sent', async () => {
    const before = await stack.status();
    await tab.anew();
    const shown = await tab.figures();
    const after = await stack.status();
    for (const [at, { name, sent }] of shown.campaigns.entries()) {
      assert.equal(name, before.campaigns[at].name);
      const [least, most] = [before.campaigns[at].sent, after.campaigns[at].sent];
      assert.ok(sent !== null && least <= sent && sent <= most, `${name}: ${least} <= ${sent} <= ${most}`);
    }
    rounds += Number(after.counters.sent > before.counters.sent);
    return rounds === 3;
  });
  await until('the rate, the forecast and each campaign’s end', async () => {
    const { rate, forecast, campaigns } = await tab.figures();
    assert.ok(rate !== null && rate > 0, `the rate is ${rate}`);
    assert.match(forecast ?? 'none', /^\d/, 'the forecast stands beside the curve');
    return campaigns.every(({ state }) => state === 'sending');
  });
  assert.match(await tab.at('headline').innerText(), /^Sending \d+(\.\d)? a second/);
});

promise('sending above the quota is red and said', async ({ console, browser }) => {
  const tab = await browser.tab();
  const state = await told(console);
  const shown = async (/** @type {number} */ share) => {
    const { figures } = state;
    const quota = figures.status.quota.account_per_second;
    await pretend(tab, console.url, { ...state, figures: { ...figures, rate: quota * share, failed: null } });
    const headline = tab.page.locator('#headline');
    const rate = tab.page.locator('[data-tile=rate]');
    return { tone: await headline.getAttribute('data-tone'), says: await headline.innerText(), rate: await rate.getAttribute('data-tone') };
  };
  const above = await shown(1.2);
  assert.match(above.says, /above the quota of \d/);
  assert.deepEqual([above.tone, above.rate], ['bad', 'bad']);
  const below = await shown(0.98);
  assert.doesNotMatch(below.says, /above/);
  assert.notEqual(below.rate, 'bad');
});

promise('every figure that stands still on the page is the stack’s', async ({ stack, console, browser }) => {
  const tab = await browser.open(console);
  await stack.tidegate('pause', '--reason', 'a look at the figures');
  await until('the page shows what the stack says', async () => {
    const before = expected(await stack.status());
    const { at, rate, refused, forecast, ...shown } = await tab.figures();
    assert.deepEqual(expected(await stack.status()), before, 'the stack stands still');
    assert.deepEqual(shown, before);
    return true;
  });
  await stack.tidegate('resume', '--reason', 'the figures are right');
});
