// One campaign: how it stands, what of it was sent and waits, and when it ends.

import { openSteer } from './actions.js';
import { stateOf } from './campaigns.js';
import { byId, h, icon, setAttr, setIcon, setText, setValue, show } from './dom.js';
import { clock, count, dollars, percent, plural, progress, rate, span } from './format.js';
import { foreseen, isStale, model } from './model.js';
import { campaignShown, shownFigures } from './view.js';
import { openWeights } from './weights.js';
import { say } from './words.js';

/** @typedef {{value: HTMLElement, note: HTMLElement}} Fact */

/** @type {{[name: string]: Fact}} */
const facts = {};
/** @type {HTMLElement} */ let title;
/** @type {HTMLElement} */ let chip;
/** @type {HTMLElement} */ let missing;
/** @type {HTMLElement} */ let list;
/** @type {HTMLElement} */ let actions;
/** @type {HTMLButtonElement} */ let pause;

const FACTS = [['share', 'Share now'], ['rate', 'Rate'], ['sent', 'Sent'], ['waiting', 'Waiting'], ['age', 'Age of what is sent now'], ['ends', 'Ends'], ['refused', 'Refused'], ['bounced', 'Bounces'], ['complained', 'Complaints'], ['suppressed', 'Suppressed by SES'], ['dropped', 'Dropped by SES'], ['dead', 'Dead letters'], ['other', 'Not sent on purpose'], ['cost', 'Cost']];

export function startCampaignPage() {
  title = h('h2', { class: 'campaign-title', testid: 'one-title', tabindex: -1 });
  chip = h('span', { class: 'state-chip' }, icon('empty'), h('span', { class: 'state-text' }));
  pause = h('button', { type: 'button', testid: 'one-pause', click: () => openSteer(pause.dataset.action === 'resume' ? 'resume' : 'pause', campaignShown()) });
  actions = h('div', { class: 'hero-actions', 'data-acts': true }, pause,
    h('button', { type: 'button', text: 'Weights', click: () => openWeights(campaignShown() ?? undefined) }));
  missing = h('p', { class: 'none', hidden: true });
  list = h('dl', { class: 'facts' });
  for (const [name, label] of model.session?.ses_price ? FACTS : FACTS.filter(([name]) => name !== 'cost')) {
    const value = h('dd', { testid: `of-${name}` });
    const note = h('dd', { class: 'muted' });
    facts[name] = { value, note };
    list.append(h('div', {}, h('dt', { text: label }), value, note));
  }
  byId('campaign').append(
    h('p', {}, h('a', { href: '#', class: 'back', testid: 'all-campaigns', text: 'All campaigns' })),
    h('header', { class: 'panel-head' }, title, chip, h('span', { class: 'spacer' }), actions), missing, list);
}

/** @param {string} name @param {string} value @param {string} [note] @param {number | null} [exact] */
function tell(name, value, note = '', exact = null) {
  setText(facts[name].value, value);
  setText(facts[name].note, note);
  setValue(facts[name].value, exact);
}

export function renderCampaignPage() {
  const name = campaignShown();
  show(byId('campaign'), name !== null);
  if (name === null || !model.figures) return;
  setText(title, name);
  const found = shownFigures();
  show(missing, !found);
  show(list, Boolean(found));
  show(chip, Boolean(found));
  show(actions, Boolean(found));
  if (!found) {
    setText(missing, 'This stack has no campaign of this name.');
    return;
  }
  const { campaign, row } = found;
  const [state, sign, label, why] = stateOf(campaign, row);
  setAttr(chip, 'data-state', state);
  setIcon(/** @type {SVGSVGElement} */ (chip.querySelector('svg')), sign);
  setText(/** @type {Element} */ (chip.querySelector('.state-text')), why ? `${label}: ${why}` : label);

  const paused = model.figures.status.holds.some((hold) => hold.campaign === name && hold.reason === 'paused');
  setAttr(pause, 'data-action', paused ? 'resume' : 'pause');
  setText(pause, paused ? 'Resume' : 'Pause');

  const changed = campaign.weight === campaign.configured_weight ? '' : `, configured ${campaign.configured_weight}`;
  tell('share', percent(row?.share, 1), `of ${percent(campaign.share, 1)} (weight ${campaign.weight}${changed})`, row?.share);
  tell('rate', `${rate(row?.rate)} a second`, '', row?.rate);
  tell('sent', count(row?.sent ?? campaign.sent), row?.progress ? `${progress(row.progress)} of what came since the ledger began` : 'since the ledger began', row?.sent ?? campaign.sent);
  const { backlog } = campaign;
  tell('waiting', count(row?.waiting), backlog ? `${count(backlog.visible)} visible, ${count(backlog.in_flight)} in flight, ${count(backlog.delayed)} delayed` : '', row?.waiting);
  tell('age', span(row?.age_s), 'from its queue until it is accepted, as a mean', row?.age_s);

  const end = foreseen()?.campaigns?.find((one) => one.name === name);
  const rest = isStale() ? null : row?.eta_s ?? null;
  const range = end?.earliest && end.latest ? (clock(end.earliest) === clock(end.latest) ? 'by the forecast' : `by the forecast between ${clock(end.earliest)} and ${clock(end.latest)}`) : end?.left ? `forecast: ${plural(end.left, say.message)} left at its end` : '';
  tell('ends', (row?.waiting ?? 0) === 0 ? '–' : end?.ends_at ? `at ${clock(end.ends_at)}` : rest === null ? '–' : `in ${span(rest)}`, (row?.waiting ?? 0) === 0 ? 'nothing waits' : range);

  tell('refused', count(campaign.refused), campaign.refused ? `${say.message}s, for the rate; each was tried again` : 'none for the rate', campaign.refused);
  const { feedback } = campaign;
  for (const [kind, count_] of /** @type {[string, number | undefined][]} */ ([['bounced', feedback?.bounced], ['complained', feedback?.complained], ['suppressed', feedback?.suppressed], ['dropped', feedback?.dropped]])) {
    const of = feedback?.sent ? `${percent((count_ ?? 0) / feedback.sent, 2)} of ${count(feedback.sent)} ${say.unit}s, in the last two to four days` : 'in the last two to four days';
    tell(kind, count_ === undefined ? '–' : count(count_), feedback ? of : 'not counted: Feedback is off, or none came yet', count_ ?? null);
  }

  const letters = (model.dead?.campaigns[name] ?? []).reduce((sum, group) => sum + group.letters, 0);
  tell('dead', model.dead ? count(letters) : '–', model.dead ? `read at ${clock(model.dead.read_at)}${model.dead.whole ? '' : '; not all could be read'}` : 'not read yet', model.dead ? letters : null);
  const { counters } = model.figures.status;
  const cancelled = counters[`cancelled.${name}`] ?? 0;
  const excluded = counters[`excluded.${name}`] ?? 0;
  tell('other', count(cancelled + excluded), `${count(cancelled)} cancelled, ${count(excluded)} excluded`, cancelled + excluded);
  const price = model.session?.ses_price ?? 0;
  const sent = row?.sent ?? campaign.sent;
  if (price) tell('cost', dollars(sent * price), `to SES, ${dollars(price * 1_000)} for 1,000 recipients${row?.waiting ? `; ${dollars(row.waiting * price)} more for what waits` : ''}`, sent * price);
}
