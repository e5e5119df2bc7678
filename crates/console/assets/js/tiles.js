// The figures, each with what it means.

import { openRate, openSteer } from './actions.js';
import { byId, h, setAttr, setBar, setText, setValue, show } from './dom.js';
import { count, dollars, limit, percent, plural, rate, sentence, span, wait } from './format.js';
import { capital, deadLetters, exceeded, model, now } from './model.js';
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
  tile('waiting', 'waiting-all', 'Waiting', `${capital(say.message)}s on the campaign queues and the merge queue. Waiting costs a ${say.message} nothing: no attempt is counted.`, large);
  tile('express', 'express', 'Express', `What takes every slot before the campaigns’ (one-time codes, receipts), and how long it waited over the last 10 seconds: from the express queue until ${say.service} accepted it.`, large);
  tile('refused', 'refused', 'Refused', `Sends that ${say.service} refused for the rate since this console began to look. Each lowers the rate to four fifths for a while; the ${say.message}s are kept and tried again.`);
  tile('skipped', 'slots-skipped', 'Slots skipped', 'A slot that passed though something waited, since the sending was late for it. It is never caught up, so that no second is too full. Summed since the ledger began.');
  tile('unused', 'slots-unused', 'Slots unused', 'A slot for which there was nothing to send. Normal where little waits. Summed since the ledger began.');
  tile('dead', 'dead-count', 'Dead letters', `${capital(say.message)}s that are not sent: refused for good, all attempts spent, cancelled and kept, or no ${say.message} at all. They stay until someone replays or removes them.`);
  tile('level', 'level', 'Back-pressure', 'How much more waits than can be sent. Busy defers what has low priority, overloaded normal priority as well; what is high, critical or express is never deferred.');
  tile('merge', 'merge', 'Merge queue', 'The queue between the campaigns and the sending, near one window deep. What stands in it is already chosen by weight.');
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
  const { status, slots } = figures;
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

  const waiting = figures.rows.reduce((sum, row) => sum + row.waiting, 0);
  const flight = status.campaigns.reduce((sum, campaign) => sum + (campaign.backlog?.in_flight ?? 0), 0);
  const delayed = status.campaigns.reduce((sum, campaign) => sum + (campaign.backlog?.delayed ?? 0), 0);
  fill('waiting', count(waiting), waiting, waiting === 1 ? say.message : `${say.message}s`, `${count(flight)} in flight, ${count(delayed)} delayed. ${atHand(status.serving.left)}`);

  const at = figures.express;
  const held = status.holds.some((hold) => hold.campaign === 'express');
  const paused = status.holds.some((hold) => hold.campaign === 'express' && hold.reason === 'paused');
  const depth = status.queues.express;
  if (at) fill('express', rate(at.per_second), at.per_second, 'a second', held ? 'Held.' : at.per_second > 0 ? `Waits ${at.p99_s === null ? `${wait(at.waited_s)} on average` : `${wait(at.p99_s)} at most (99 of 100)`}.` : 'None came in the last 10 seconds.', held ? 'warn' : '');
  else fill('express', '–', null, '', depth ? 'None was sent lately.' : 'This stack has no express queue.');
  show(express, at !== null || depth !== undefined);
  setAttr(express, 'data-action', paused ? 'resume' : 'pause');
  setText(express, paused ? 'Resume express' : 'Pause express');

  fill('refused', count(figures.refused), figures.refused, '', figures.refused === null ? 'not known' : figures.refused ? 'for the rate, since the start here' : 'none since the start here', figures.refused ? 'warn' : '');
  fill('skipped', count(slots?.skipped), slots?.skipped, '', slotsNow(slots?.skipped_now), (slots?.skipped_now ?? 0) > 0.2 ? 'warn' : '');
  fill('unused', count(slots?.unused), slots?.unused, '', slotsNow(slots?.unused_now));
  const dead = deadLetters();
  const given = status.counters.dead;
  fill('dead', count(dead), dead, '', dead === null ? 'not known' : given === undefined ? '' : `${plural(given, say.message)} since the ledger began`, dead ? 'bad' : '');

  const level = status.level?.level ?? 'clear';
  const since = status.level?.since;
  const deferred = level === 'clear' ? 'nothing deferred' : level === 'busy' ? 'low priority deferred' : 'low and normal deferred';
  fill('level', level.charAt(0).toUpperCase() + level.slice(1), null, '', since ? `${deferred}, for ${span((now() - Date.parse(since)) / 1000)}` : deferred, level === 'clear' ? '' : level === 'busy' ? 'warn' : 'bad');
  setAttr(tiles.level.value, 'data-value', level);
  const merge = status.queues.merge;
  fill('merge', merge ? count(merge.visible) : '–', merge?.visible, '', merge ? `${count(merge.in_flight)} in flight, ${count(merge.delayed)} delayed` : 'direct mode: there is none');
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

const LINES = { express: 'express', campaigns: 'of campaigns', limited: 'under limits' };

/**
 * The mails that got no slot in the last window, by line and by priority.
 * @param {import('./types.js').Figures['status']['serving']['left']} left
 */
function atHand(left) {
  if (!left) return '';
  /** @type {{[priority: string]: number}} */
  const priorities = {};
  const lines = Object.entries(LINES).map(([line, words]) => {
    const mails = Object.entries(left.mails[line] ?? {});
    for (const [priority, many] of mails) priorities[priority] = (priorities[priority] ?? 0) + many;
    return /** @type {[string, number]} */ ([words, mails.reduce((sum, [, many]) => sum + many, 0)]);
  });
  const listed = (/** @type {[string, number][]} */ parts) => parts.filter(([, many]) => many > 0).map(([of, many]) => `${count(many)} ${of}`).join(', ');
  const of = listed(lines);
  return of ? `In the last second ${of} got no slot (${listed(Object.entries(priorities))}); ${plural(left.slots, 'slot')} left.` : '';
}

/** @param {number} sent */
function cost(sent) {
  if (!tiles.cost) return;
  const spent = sent * (model.session?.ses_price ?? 0);
  const rest = model.forecast?.cost;
  fill('cost', dollars(spent), spent, '', rest ? `for SES; what waits costs ${dollars(rest.total)} more, ${dollars(rest.ses)} of it for SES` : 'for SES since the ledger began');
}

/** @param {number | null | undefined} now_ */
function slotsNow(now_) {
  return now_ === null || now_ === undefined ? '' : `${rate(now_)} a second now`;
}

