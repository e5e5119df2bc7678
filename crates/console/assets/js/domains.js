// Limits of recipient domains, where there are some.

import { byId, h, keyed, setText, setValue, show } from './dom.js';
import { count, limit } from './format.js';
import { model } from './model.js';

/** @type {HTMLElement} */
let body;

export function startDomains() {
  body = h('tbody');
  byId('domains-body').append(h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'Table of the domains’ limits' }, h('table', { class: 'plain' },
    h('caption', { class: 'hidden', text: 'Limits of recipient domains, and what waits for them' }),
    h('thead', {}, h('tr', {}, ...['Domains', 'Limit', 'A second now', 'Waiting'].map((text) => h('th', { scope: 'col', text })))), body)));
}

export function renderDomains() {
  const list = model.figures?.status.domains ?? [];
  show(byId('domains'), list.length > 0);
  keyed(body, list, (domain) => domain.domains, (domain) => h('tr', {},
    h('th', { scope: 'row', text: domain.domains.replaceAll('+', ', ') }), h('td'), h('td', { class: 'number' }), h('td', { class: 'number' })),
  (row, domain) => {
    const [, of, per, waiting] = row.children;
    setText(of, domain.limit);
    setText(per, limit(domain.per_second));
    setText(waiting, count(domain.waiting));
    setValue(waiting, domain.waiting);
  });
}
