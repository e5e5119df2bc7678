// The page of the limits.

import { byId, h, keyed, labelled, setText, setValue, show } from './dom.js';
import { clock, count, limit, words } from './format.js';
import { openLimit, openLimitRemoval } from './limit-form.js';
import { capital, model } from './model.js';
import { say } from './words.js';

/** @type {HTMLElement} */
let body;

export function startLimits() {
  body = h('tbody');
  byId('open-limit').addEventListener('click', () => openLimit());
  byId('limits-body').append(h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'Table of the limits' }, h('table', { class: 'plain cards' },
    h('caption', { class: 'hidden', text: 'Limits, and what waits on their queues' }),
    h('thead', {}, h('tr', {}, ...[`${capital(say.messages)} of`, 'Limit', 'A second now', 'Waiting', 'Change'].map((text) => h('th', { scope: 'col', text })))), body)));
}

/** @param {import('./types.js').Limit} of */
function now(of) {
  if (!of.closed) return limit(of.per_second);
  return of.opens_at ? `closed until ${clock(of.opens_at)}` : 'closed';
}

export function renderLimits() {
  const list = model.figures?.status.limits ?? [];
  show(byId('limits-none'), list.length === 0);
  show(byId('limits-body'), list.length > 0);
  keyed(body, list, (of) => of.key, (of) => h('tr', {},
    h('th', { scope: 'row', text: of.key.endsWith(':*') ? `each other ${words(of.key.slice(0, -2))}` : of.key.replace(/^domain:/, '').replaceAll('+', ', ') }), h('td'), h('td', { class: 'number' }), h('td', { class: 'number' }),
    h('td', {}, h('button', { type: 'button', class: 'link', 'data-acts': true, testid: 'remove-limit', 'aria-label': `Remove the limit of ${of.key}`, text: 'Remove', click: () => openLimitRemoval(of.key) }))),
  (row, of) => {
    const [, text, per, waiting] = row.children;
    setText(text, of.limit);
    setText(per, now(of));
    setText(waiting, count(of.waiting));
    setValue(waiting, of.waiting);
  });
  labelled(body);
}
