// What holds sending, the breaker among it: what, since, why, until when, who lifts it.

import { openLift, openSteer } from './actions.js';
import { byId, h, icon, keyed, setCodeText, setText } from './dom.js';
import { clock, full, sentence, span } from './format.js';
import { capital, model, now } from './model.js';
import { say } from './words.js';

/** @typedef {import('./types.js').Hold} Hold */
/** @typedef {{key: string, tone: string, icon: string, title: string, why: string, facts: string, stands: string, hold: Hold | null}} Item */

/** @param {string | null} at */
function since(at) {
  return at ? `since ${clock(at)} (${span((now() - Date.parse(at)) / 1000)})` : '';
}

/** @param {Hold} hold @returns {Item} */
function held(hold) {
  const what = hold.campaign === 'express' ? `Express ${say.messages}` : hold.campaign ?? (hold.reason === 'daily_budget' ? 'All campaigns' : 'All sending');
  const are = what === 'All campaigns' ? 'are' : 'is';
  const paused = hold.reason === 'paused';
  const facts = [since(hold.since), hold.until ? `until ${clock(hold.until)}` : '', `lifted by ${hold.lifted_by ?? 'an operator'}`];
  return {
    key: `${hold.campaign ?? ''}/${hold.reason}`,
    tone: paused ? 'warn' : 'bad',
    icon: paused ? 'pause' : 'bad',
    title: paused ? `${what} ${are} paused` : `${what} ${are} held: ${hold.what}`,
    why: hold.detail ?? '',
    facts: facts.filter(Boolean).join(' · '),
    stands: full(hold.since),
    hold,
  };
}

/** @returns {Item[]} */
function items() {
  const status = model.figures?.status;
  if (!status) return [];
  const list = status.holds.map(held);
  const { state, since: from, until } = status.breaker;
  if (state === 'blocking' || state === 'probing') {
    const seconds = until ? Math.max(0, (Date.parse(until) - now()) / 1000) : null;
    list.unshift({
      key: 'breaker', tone: state === 'blocking' ? 'bad' : 'warn', icon: state === 'blocking' ? 'bad' : 'wait',
      title: state === 'blocking' ? `The breaker stops all sending, since ${say.service} fails` : `The breaker tries whether ${say.service} works again`,
      why: `more than a fifth of the sends were refused or failed for over a minute; no ${say.message} loses an attempt for it`,
      facts: [since(from), seconds === null ? '' : `tried again in ${span(seconds)}`, `lets go by itself once ${say.service} takes a ${say.message}`].filter(Boolean).join(' · '),
      stands: full(from), hold: null,
    });
  }
  return list;
}

/** @param {Item} item */
function create(item) {
  const { hold } = item;
  const paused = hold?.reason === 'paused';
  const act = () => {
    if (!hold) return;
    if (paused) openSteer('resume', hold.campaign);
    else openLift(hold);
  };
  return h('li', { class: 'hold', 'data-tone': item.tone, testid: hold ? 'hold' : 'breaker' },
    icon(item.icon),
    h('div', { class: 'hold-text' },
      h('p', { class: 'hold-title' }),
      h('p', { class: 'hold-why' }),
      h('p', { class: 'hold-facts muted' })),
    hold ? h('button', { type: 'button', click: act, testid: 'lift', 'data-acts': true, 'aria-label': `${paused ? 'Resume' : 'Lift'}: ${item.title}`, text: paused ? 'Resume' : 'Lift' }) : null);
}

/** @param {HTMLElement} row @param {Item} item */
function update(row, item) {
  /** @param {string} name */
  const part = (name) => /** @type {HTMLElement} */ (row.querySelector(name));
  row.dataset.tone = item.tone;
  setText(part('.hold-title'), item.title);
  setCodeText(part('.hold-why'), item.why ? sentence(capital(item.why)) : '');
  setCodeText(part('.hold-facts'), item.facts);
  part('.hold-facts').title = item.stands;
}

export function renderHolds() {
  const list = items();
  keyed(byId('holds'), list, (item) => `${item.key} ${item.icon}`, create, update);
  byId('holding').dataset.count = String(list.length);
}
