// The figures, each with what it means.

import { openRate, openSteer } from './actions.js';
import { byId, h, setAttr, setBar, setText, setValue, show } from './dom.js';
import { count, dollars, limit, percent, plural, rate, sentence, span, wait } from './format.js';
import { capital, deadLetters, exceeded, held, model, now, waiting } from './model.js';
import { explain } from './popover.js';
import { say } from './words.js';

/**
 * @typedef {{root: HTMLElement, value: HTMLElement, unit: HTMLElement, note: HTMLElement, bar: HTMLElement | null, foot: HTMLElement}} Tile
 */

/** The limits of a period. @type {{[limit: string]: string}} */
const PERIODS = {
  'daily quota': 'Recipients that SES counted in the last 24 hours, all software of the account included, of what it allows. What is left for campaigns is less by the reserve that express mail keeps.',
  'spend limit': 'US dollars that the account’s texts may cost in a calendar month. At the limit AWS refuses all of them, and all sending is held.',
};

/** @type {{[name: string]: Tile}} */
const tiles = {};
/** @type {HTMLButtonElement} */
let express;

/**
 * @param {string} name
 * @param {string} testid
 * @param {string} title
 * @param {string} means
 * @param {{bar?: boolean, large?: boolean}} [how]
 */
function tile(name, testid, title, means, how = {}) {
  const value = h('span', { class: 'tile-value', testid });
  const unit = h('span', { class: 'tile-unit' });
  const note = h('p', { class: 'tile-note' });
  const bar = how.bar ? h('span', { class: 'meter-fill' }) : null;
  const foot = h('div', { class: 'tile-foot' });
  const root = h('div', { class: how.large ? 'tile large' : 'tile', 'data-tile': name },
    h('div', { class: 'tile-head' }, h('h3', { text: title }), explain(title, means)),
    h('p', { class: 'tile-figure' }, value, ' ', unit),
    bar ? h('div', { class: 'meter', 'aria-hidden': 'true' }, bar) : null,
    note, foot);
  tiles[name] = { root, value, unit, note, bar, foot };
  byId('tiles').append(root);
}

export function startTiles() {
  const large = { large: true };
  tile('rate', 'rate', 'Rate now', `${capital(say.unit)}s a second over the last 10 seconds, of what may be sent: the quota in force, less the rate margin of some percent that keeps any second below it.`, { large: true, bar: true });
  tile('quota', 'quota', capital(say.limit), PERIODS[say.limit], { large: true, bar: true });
  tile('waiting', 'waiting-all', 'Waiting', `Everything that is to be sent: on the express queue, the campaigns’ queues, the merge queue and the limits’ queues. Waiting costs a ${say.message} nothing: no attempt is counted.`, large);
  tile('express', 'express', 'Express', `What takes every slot before the campaigns’ (one-time codes, receipts), and how long it waited over the last 10 seconds: from the express queue until ${say.service} accepted it.`, large);
  tile('refused', 'refused', 'Refused for the rate', `Sends that ${say.service} refused for the rate since this console began to look. Each lowers the rate to four fifths for a while; the ${say.message}s are kept and tried again.`);
  tile('dead', 'dead-count', 'Dead letters', `${capital(say.message)}s that are not sent: refused for good, all attempts spent, cancelled and kept, or no ${say.message} at all. They stay until someone replays or removes them.`);
  tile('level', 'level', 'Back-pressure', 'How much more waits than can be sent. Busy defers what has low priority, overloaded normal priority as well; what is high, critical or express is never deferred.');
  tile('alarms', 'alarms', 'Alarms', 'CloudWatch’s alarms of this stack that ring now, and the invocations of its functions that failed or were throttled within the last hour.');
  if (model.session?.ses_price) tile('cost', 'cost', 'Cost', 'SES’s price for all recipients since the ledger began, in us-east-1 and without attachments’ data, and the forecast of SES and AWS together for what waits.');
  tiles.rate.foot.append(h('button', { type: 'button', class: 'link', click: () => openRate(), 'data-acts': true, testid: 'open-rate', text: 'Cap the rate' }));
  express = h('button', { type: 'button', class: 'link', click: () => {
    openSteer(express.dataset.action === 'resume' ? 'resume' : 'pause', 'express');
  }, testid: 'express-pause', text: 'Pause express' });
  tiles.express.foot.append(express);
}

/** @param {string} name @param {string} value @param {number | null | undefined} exact @param {string} [unit] @param {string} [note] @param {string} [tone] */
function fill(name, value, exact, unit = '', note = '', tone = '') {
  const at = tiles[name];
  setText(at.value, value);
  setValue(at.value, exact);
  setText(at.unit, unit);
  setText(at.note, note);
  setAttr(at.root, 'data-tone', tone || null);
}

/** @param {import('./types.js').Quota} quota */
function lower(quota) {
  const parts = [];
  if (quota.account_per_second !== null) parts.push(`${say.service} allows ${limit(quota.account_per_second)}`);
  if (quota.operator_cap !== null) parts.push(`capped by an operator at ${limit(quota.operator_cap)}`);
  if (quota.configured_cap !== null) parts.push(`configured cap ${limit(quota.configured_cap)}`);
  if (quota.factor !== null && quota.factor < 1) parts.push(`refusals leave ${percent(quota.factor)}`);
  return sentence(parts.length ? parts.join('; ') : `What ${say.service} allows is not known`);
}

export function renderTiles() {
  const { figures } = model;
  if (!figures) return;
  const { status } = figures;
  const { quota } = status;
  const may = quota.slots_per_second ?? quota.in_force;
  const lowered = quota.operator_cap !== null || (quota.factor !== null && quota.factor < 1);
  fill('rate', rate(figures.rate), figures.rate, may === null ? 'a second' : `of ${limit(may)} a second`, exceeded() === null ? lower(quota) : `Above the quota. ${lower(quota)}`, exceeded() === null ? (lowered ? 'warn' : '') : 'bad');
  setBar(/** @type {HTMLElement} */ (tiles.rate.bar), figures.rate !== null && may ? figures.rate / may : 0);

  if (quota.daily) {
    const { sent, quota: of, left_for_campaigns: left } = quota.daily;
    const share = of > 0 ? sent / of : 0;
    const note = left === null ? '' : left > 0 ? `${count(left)} left for campaigns.` : 'Nothing left for campaigns.';
    fill('quota', count(sent), sent, `of ${count(of)}`, note, share >= 0.98 ? 'bad' : share >= 0.9 ? 'warn' : '');
    setBar(/** @type {HTMLElement} */ (tiles.quota.bar), share);
  } else if (typeof quota.spend_limit === 'number') {
    fill('quota', `$${count(quota.spend_limit)}`, quota.spend_limit, 'a month', 'What is spent of it: tidegate doctor.');
  } else {
    fill('quota', '–', null, '', 'Not known, or without a limit.');
    setBar(/** @type {HTMLElement} */ (tiles.quota.bar), 0);
  }

  const { all, by } = waiting();
  const delayed = status.campaigns.reduce((sum, campaign) => sum + (campaign.backlog?.delayed ?? 0), 0);
  fill('waiting', count(all), all, all === 1 ? say.message : `${say.message}s`, [by, delayed ? `${count(delayed)} of them for another attempt` : ''].filter(Boolean).map(sentence).join(' '));

  const at = figures.express;
  const stopped = held('express');
  const paused = status.holds.some((hold) => hold.campaign === 'express' && hold.reason === 'paused');
  const depth = status.queues.express;
  const took = !at ? 'None was sent in the last 10 seconds' : at.p99_s === null ? `It waits ${wait(at.waited_s)} on average` : `It waits ${wait(at.p99_s)} at most (99 of 100)`;
  if (depth) fill('express', rate(at?.per_second ?? 0), at?.per_second ?? 0, `a second, ${count(status.waiting.express)} waiting`, sentence(stopped ? `${paused ? 'Paused' : 'Held'}: nothing of it is sent` : took), stopped ? 'warn' : '');
  else fill('express', '–', null, '', 'This stack has no express queue.');
  show(express, depth !== undefined);
  setAttr(express, 'data-action', paused ? 'resume' : 'pause');
  setText(express, paused ? 'Resume express' : 'Pause express');

  fill('refused', count(figures.refused), figures.refused, '', figures.refused ? 'since this console began; tried again, at a lower rate for a while' : 'none since this console began', figures.refused ? 'warn' : '');
  const dead = deadLetters();
  const given = status.counters.dead;
  fill('dead', count(dead), dead, '', dead === null ? 'not known' : given === undefined ? '' : `${plural(given, say.message)} since the ledger began`, dead ? 'bad' : '');

  const level = status.level?.level ?? 'clear';
  const since = status.level?.since;
  const deferred = level === 'clear' ? 'nothing deferred' : level === 'busy' ? 'low priority deferred' : 'low and normal deferred';
  fill('level', level.charAt(0).toUpperCase() + level.slice(1), null, '', since ? `${deferred}, for ${span((now() - Date.parse(since)) / 1000)}` : deferred, level === 'clear' ? '' : level === 'busy' ? 'warn' : 'bad');
  setAttr(tiles.level.value, 'data-value', level);
  alarms(figures.monitor);
  cost(status.counters.sent ?? 0);
}

/** @param {import('./types.js').Figures['monitor']} monitor */
function alarms({ failed, report }) {
  if (!report) {
    fill('alarms', '–', null, '', failed ?? 'not read yet');
    return;
  }
  const lost = report.failed.map(({ function: name, errors, throttles }) => [errors && `${plural(errors, 'failed invocation')} of ${name}`, throttles && `${count(throttles)} of ${name} throttled`]).flat().filter(Boolean);
  const many = report.ringing.length;
  fill('alarms', count(many), many, `of ${count(report.alarms)}`, lost.length ? `${lost.join(', ')}, within an hour` : 'no invocation failed within an hour', many ? 'bad' : lost.length ? 'warn' : '');
}

/** @param {number} sent */
function cost(sent) {
  if (!tiles.cost) return;
  const spent = sent * (model.session?.ses_price ?? 0);
  const rest = model.forecast?.cost;
  fill('cost', dollars(spent), spent, '', rest ? `for SES; what waits costs ${dollars(rest.total)} more, ${dollars(rest.ses)} of it for SES` : 'for SES since the ledger began');
}
