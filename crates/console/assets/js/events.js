// What changed: events of the stack, and changes by operators.

import { read } from './api.js';
import { byId, h, icon, keyed, setText } from './dom.js';
import { clock, clockSeconds, full, words } from './format.js';
import { capital, model, touch } from './model.js';
import { campaignShown, isShown, page } from './view.js';

/** @typedef {import('./types.js').Entry} Entry */

/** @type {{[kind: string]: string}} */
const KINDS = { hold: 'Holds', pause: 'Pauses', breaker: 'Breaker', level: 'Back-pressure', quota: 'Quota', serving: 'Serving', progress: 'Progress', dead_letter: 'Dead letters', change: 'Changes', gap: 'Gaps' };
/** @type {{[kind: string]: string}} */
const WORDS = { hold: 'Hold', pause: 'Pause', breaker: 'Breaker', level: 'Back-pressure', quota: 'Quota', serving: 'Serving', progress: 'Progress', dead_letter: 'Dead letter', change: 'Change', gap: 'Gap' };
/** @type {{[tone: string]: string}} */
const TONES = { bad: 'Trouble', warn: 'Warning', good: 'Good', info: 'Note' };

/** @type {HTMLSelectElement} */
let filter;

export function startEvents() {
  filter = /** @type {HTMLSelectElement} */ (byId('events-kind'));
  for (const [kind, text] of Object.entries(KINDS)) filter.append(h('option', { value: kind, text }));
  filter.addEventListener('change', touch);
}

/** @param {Entry} entry */
function create(entry) {
  const sign = entry.kind === 'gap' ? 'gap' : TONES[entry.tone] ? entry.tone : 'info';
  return h('li', { class: entry.kind === 'gap' ? 'event gap' : 'event', 'data-tone': entry.tone, testid: 'event', 'data-kind': entry.kind },
    icon(sign, TONES[entry.tone] ?? 'Note'),
    h('div', {},
      h('p', { class: 'event-title', text: entry.title }),
      entry.detail ? h('p', { class: 'event-detail', text: entry.detail }) : null,
      h('p', { class: 'event-meta' }, h('time', { datetime: entry.at, title: full(entry.at), text: clockSeconds(entry.at) }), ` · ${WORDS[entry.kind] ?? words(entry.kind)}${entry.campaign ? ` · ${entry.campaign}` : ''}`)));
}

export function renderEvents() {
  const list = model.events.filter((entry) => (!filter.value || entry.kind === filter.value) && isShown(entry.campaign));
  keyed(byId('events'), list, (entry) => entry.key, create);
  byId('events-none').hidden = list.length > 0;
  setText(byId('events-none'), filter.value || campaignShown() !== null ? 'Nothing of this kind.' : 'Nothing has changed since this console began to look.');
}

/** All changes that the console keeps, and the newest at that time. @type {{all: import('./types.js').Steering[] | null, at: string | undefined}} */
const past = { all: null, at: undefined };

export function renderChanges() {
  const newest = model.figures?.status.changes ?? [];
  if (page() === 'history' && past.at !== newest[0]?.at) {
    past.at = newest[0]?.at;
    read('/api/changes').then((all) => {
      past.all = all;
      touch();
    }, () => {});
  }
  const list = (page() === 'history' && past.all ? past.all : newest).filter((change) => isShown(change.campaign) || change.campaign === null);
  keyed(byId('changes'), list, (change) => `${change.at} ${change.by} ${change.action} ${change.campaign}`, (change) => h('li', { class: 'event', testid: 'operator-change' },
    icon('person'),
    h('div', {},
      h('p', { class: 'event-title', text: `${capital(words(change.action))}${change.campaign ? ` ${change.campaign}` : ''}${change.detail ? `: ${change.detail}` : ''}` }),
      change.reason ? h('p', { class: 'event-detail', text: `“${change.reason}”` }) : null,
      h('p', { class: 'event-meta' }, h('time', { datetime: change.at, title: full(change.at), text: clock(change.at) }), ` · ${change.by}`))));
  byId('changes-none').hidden = list.length > 0;
  setText(byId('changes-none'), campaignShown() === null ? 'No operator has changed anything yet.' : 'No operator has changed anything of it lately.');
}
