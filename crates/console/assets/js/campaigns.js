// The campaigns: a table, which narrow screens show as cards; rows are updated in place.

import { openLift, openSteer } from './actions.js';
import { chosen, endTools, startTools } from './campaign-tools.js';
import { byId, h, icon, keyed, setAttr, setBar, setIcon, setText, setValue, show } from './dom.js';
import { clock, count, full, percent, plural, progress, rate, span, words } from './format.js';
import { closedBy, foreseen, isStale, mayAct, model } from './model.js';
import { menu } from './popover.js';
import { openReplay } from './replay.js';
import { openLimit } from './limit-form.js';
import { openWeights } from './weights.js';
import { addressOf } from './view.js';
import { askWhy } from './why.js';
import { say } from './words.js';

/** @typedef {import('./types.js').Campaign} Campaign */
/** @typedef {import('./types.js').Row} Row */
/** @typedef {{campaign: Campaign, row: Row | undefined}} Item */

const HEADS = [['Campaign'], ['State'], ['Share now', 'of what was sent in the last 10 s, against the weight'], ['Sent'], ['Rate', 'a second'], ['Waiting'], ['Age', 'how long what is sent now had waited, as a mean'], ['Ends'], ['Actions']];

/** @type {HTMLTableSectionElement} */
let body;

export function startCampaigns() {
  startTools();
  body = h('tbody', { role: 'rowgroup' });
  const heads = HEADS.map(([text, title]) => h('th', { scope: 'col', role: 'columnheader', title }, h('span', { class: text === 'Actions' ? 'hidden' : null, text })));
  byId('campaigns').append(
    h('table', { class: 'campaigns', role: 'table' },
      h('caption', { class: 'hidden', text: 'Campaigns, with share, progress, what waits and when it ends' }),
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ...heads)), body),
    h('p', { id: 'campaigns-none', class: 'none', text: 'This stack has no campaigns yet. Deploy one, or tag a queue with tidegate:weight.' }));
  endTools();
}

/** @param {Campaign} campaign @param {Row | undefined} row @returns {[state: string, icon: string, label: string, title: string]} */
export function stateOf(campaign, row) {
  const found = standing(campaign, row);
  return isStale() ? ['old', 'wait', `Was: ${found[2].toLowerCase()}`, found[3]] : found;
}

/** Mail of a campaign that was taken out. @param {string} kind @param {string} name */
const taken = (kind, name) => model.figures?.status.counters[`${kind}.${name}`] ?? 0;

/** @param {Campaign} campaign @param {Row | undefined} row @returns {[state: string, icon: string, label: string, title: string]} */
function standing(campaign, row) {
  const holds = model.figures?.status.holds ?? [];
  const own = holds.filter((hold) => hold.campaign === campaign.name);
  const all = holds.filter((hold) => hold.campaign === null);
  const waiting = row?.waiting ?? campaign.backlog?.visible ?? 0;
  const paused = [...own, ...all].find((hold) => hold.reason === 'paused');
  const other = own.find((hold) => hold.reason !== 'paused') ?? all.find((hold) => hold.reason !== 'paused');
  if (other) return ['held', 'bad', 'Held', `${other.what}: ${other.detail ?? ''}`];
  if (paused) return ['paused', 'pause', 'Paused', `${paused.campaign ? '' : 'all sending: '}${paused.detail ?? ''}`];
  const limit = closedBy(campaign.name);
  if (limit) return ['closed', 'wait', limit.opens_at ? `Closed, opens ${clock(limit.opens_at)}` : 'Closed', `by its limit: ${limit.limit}`];
  if (row?.rate && row.rate > 0) return ['sending', 'play', 'Sending', ''];
  if (waiting > 0 && campaign.weight === 0) return ['held', 'warn', 'No share', 'its weight is 0'];
  if (waiting > 0) return ['waiting', 'wait', 'Waiting', ''];
  if (campaign.dead > 0) return ['dead', 'warn', `${count(campaign.sent)} sent, ${count(campaign.dead)} dead`, `its dead letters say why they were not sent`];
  const apart = ['cancelled', 'excluded'].filter((kind) => taken(kind, campaign.name) > 0).map((kind) => `${count(taken(kind, campaign.name))} ${kind}`);
  if (apart.length > 0) return ['done', 'good', `${count(campaign.sent)} sent, ${apart.join(', ')}`, ''];
  if (campaign.sent > 0) return ['done', 'good', 'Done', 'all that came was sent'];
  return ['empty', 'empty', 'Empty', 'nothing was ever sent or waits'];
}

/** @param {string} testid @param {string} label @param {string} kind @param {...Node} children */
function cell(testid, label, kind, ...children) {
  return h('td', { role: 'cell', testid, 'data-label': label, class: kind }, ...children);
}

/** @param {Item} item */
function create({ campaign }) {
  const { name } = campaign;
  const holds = () => (model.figures?.status.holds ?? []).filter((hold) => hold.campaign === name);
  /** @type {HTMLButtonElement} */
  const pause = h('button', { type: 'button', class: 'quiet', testid: 'pause', 'data-acts': true, click: () => openSteer(pause.dataset.action === 'resume' ? 'resume' : 'pause', name) });
  const more = menu(`More for ${name}`, () => [
    { text: 'Why is a message waiting?', act: () => askWhy(name) },
    ...mayAct() ? [
      ...pause.hidden ? [{ text: 'Pause it before more comes', act: () => openSteer('pause', name) }] : [],
      ...holds().filter((hold) => hold.reason !== 'paused').map((hold) => ({ text: `Lift the hold: ${words(hold.reason)}`, act: () => openLift(hold) })),
      { text: 'Change the weights', act: () => openWeights(name) },
      { text: 'Limit its rate or hours', act: () => openLimit(name) },
      { text: 'Replay its dead letters', act: () => openReplay({ campaign: name }) },
    ] : [],
  ]);
  return h('tr', { role: 'row', testid: `campaign-${name}` },
    h('th', { scope: 'row', role: 'rowheader', class: 'name', title: name }, h('a', { class: 'name-text', href: addressOf(name), text: name })),
    cell('state', 'State', 'state', h('span', { class: 'state-chip' }, icon('empty'), h('span', { class: 'state-text' }))),
    cell('share', 'Share now', 'share', h('span', { class: 'share-line' }, h('span', { class: 'share-now' }), ' ', h('span', { class: 'muted', testid: 'weight' })),
      h('span', { class: 'meter with-mark', 'aria-hidden': 'true' }, h('span', { class: 'meter-fill' }), h('span', { class: 'meter-mark' }))),
    cell('sent', 'Sent', 'progress', h('span', { class: 'progress-line' }, h('span', { class: 'sent-text' }), ' ', h('span', { class: 'muted progress-text' })),
      h('span', { class: 'meter', role: 'progressbar', 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-label': `Sent of ${name}` }, h('span', { class: 'meter-fill' }))),
    cell('rate-now', 'Rate', 'number'),
    cell('waiting', 'Waiting', 'number'),
    cell('age', 'Age', 'number'),
    cell('eta', 'Ends', 'eta', h('span', { class: 'eta-in' }), h('span', { class: 'eta-at muted' })),
    h('td', { role: 'cell', class: 'row-actions', 'data-label': 'Actions' }, h('div', {}, pause, more)));
}

/** @param {HTMLElement} tr @param {Item} item */
function update(tr, { campaign, row }) {
  /** @param {string} selector */
  const part = (selector) => /** @type {HTMLElement} */ (tr.querySelector(selector));
  const [state, sign, label, title] = stateOf(campaign, row);
  const chip = part('.state-chip');
  setAttr(chip, 'data-state', state);
  setAttr(chip, 'title', title || null);
  setIcon(/** @type {SVGSVGElement} */ (chip.querySelector('svg')), sign);
  setText(part('.state-text'), label);
  setValue(part('[data-testid=state]'), null);
  setAttr(part('[data-testid=state]'), 'data-value', state);

  setText(part('.share-now'), percent(row?.share, 1));
  const share = part('[data-testid=share]');
  setValue(share, row?.share);
  setText(part('[data-testid=weight]'), `of ${percent(campaign.share, 1)}`);
  setValue(part('[data-testid=weight]'), campaign.weight);
  const changed = campaign.weight === campaign.configured_weight ? '' : `, configured ${campaign.configured_weight}`;
  setAttr(share, 'title', `weight ${campaign.weight}${changed}`);
  setBar(part('.share .meter-fill'), row?.share ?? 0);
  part('.meter-mark').style.left = `${Math.min(100, (campaign.share ?? 0) * 100)}%`;

  setText(part('.sent-text'), count(row?.sent ?? campaign.sent));
  setValue(part('[data-testid=sent]'), row?.sent ?? campaign.sent);
  // Where some was taken out, all of the rest is not all.
  const all = row?.progress === 1 && taken('cancelled', campaign.name) + taken('excluded', campaign.name) > 0;
  setText(part('.progress-text'), [all ? '' : progress(row?.progress), campaign.dead > 0 ? `${count(campaign.dead)} dead` : ''].filter(Boolean).join(', '));
  const bar = part('[role=progressbar]');
  setAttr(bar, 'aria-valuenow', row?.progress === null || row?.progress === undefined ? '0' : String(Math.floor(row.progress * 1000) / 10));
  setBar(part('.progress .meter-fill'), row?.progress ?? 0);

  setText(part('[data-testid=rate-now]'), rate(row?.rate));
  setValue(part('[data-testid=rate-now]'), row?.rate);
  const waiting = part('[data-testid=waiting]');
  setText(waiting, count(row?.waiting ?? campaign.backlog?.visible));
  setValue(waiting, row?.waiting ?? campaign.backlog?.visible);
  const { backlog } = campaign;
  setAttr(waiting, 'title', backlog ? `${count(backlog.visible)} visible, ${count(backlog.in_flight)} in flight, ${count(backlog.delayed)} delayed` : null);
  setText(part('[data-testid=age]'), span(row?.age_s));
  setValue(part('[data-testid=age]'), row?.age_s);

  const ends = foreseen()?.campaigns?.find((end) => end.name === campaign.name);
  const eta = part('[data-testid=eta]');
  setValue(eta, row?.eta_s);
  // When it ends counts from now, which stale figures do not know.
  const rest = isStale() ? null : row?.eta_s ?? null;
  setText(part('.eta-in'), rest === null ? (ends?.ends_at && (row?.waiting ?? 0) > 0 ? `at ${clock(ends.ends_at)}` : '–') : `in ${span(rest)}`);
  const range = ends?.earliest && ends.latest ? (clock(ends.earliest) === clock(ends.latest) ? clock(ends.latest) : `${clock(ends.earliest)} to ${clock(ends.latest)}`) : ends?.ends_at ? clock(ends.ends_at) : '';
  const left = ends?.left ? `${plural(ends.left, say.message)} left at the forecast’s end` : '';
  setText(part('.eta-at'), (row?.waiting ?? 0) > 0 ? left || range : '');
  setAttr(eta, 'title', ends?.ends_at ? `forecast: ${full(ends.ends_at)}` : null);

  const pause = part('[data-testid=pause]');
  const paused = model.figures?.status.holds.some((hold) => hold.campaign === campaign.name && hold.reason === 'paused');
  setAttr(pause, 'data-action', paused ? 'resume' : 'pause');
  setText(pause, paused ? 'Resume' : 'Pause');
  setAttr(pause, 'aria-label', `${paused ? 'Resume' : 'Pause'} ${campaign.name}`);
  // Where nothing waits, nothing is there to be paused.
  show(pause, !['done', 'dead', 'empty'].includes(state));
}

export function renderCampaigns() {
  const { figures } = model;
  if (!figures) return;
  const rows = new Map(figures.rows.map((row) => [row.name, row]));
  const items = figures.status.campaigns.map((campaign) => {
    const row = rows.get(campaign.name);
    return { campaign, row, state: stateOf(campaign, row)[0] };
  });
  keyed(body, chosen(items), ({ campaign }) => campaign.name, create, update);
  byId('campaigns-none').hidden = items.length > 0;
  const table = /** @type {HTMLElement} */ (body.parentElement);
  table.hidden = items.length === 0;
  /** @type {HTMLButtonElement} */ (byId('open-weights')).disabled = items.length === 0;
}
