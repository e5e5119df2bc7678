// Search, filter and order of many campaigns.

import { byId, h, setText, show } from './dom.js';
import { count } from './format.js';
import { touch } from './model.js';

/** @typedef {import('./types.js').Campaign} Campaign */
/** @typedef {import('./types.js').Row} Row */
/** @typedef {{campaign: Campaign, row: Row | undefined, state: string}} Listed */

/** From so many campaigns on there are tools. */
const MANY = 10;
/** Rows that are shown, unless all are asked for: each costs its part of a frame. */
const ROWS = 50;
const STATES = [['', 'All'], ['sending', 'Sending'], ['waiting', 'Waiting'], ['paused', 'Paused'], ['held', 'Held'], ['closed', 'Closed'], ['done', 'Done'], ['dead', 'With dead letters'], ['empty', 'Empty']];

/** @type {{[name: string]: [label: string, by: (one: Listed) => number]}} */
const ORDERS = {
  '': ['As configured', () => 0],
  waiting: ['Most waiting', ({ row }) => -(row?.waiting ?? 0)],
  rate: ['Fastest', ({ row }) => -(row?.rate ?? 0)],
  sent: ['Most sent', ({ row, campaign }) => -(row?.sent ?? campaign.sent)],
  weight: ['Largest weight', ({ campaign }) => -campaign.weight],
  eta: ['Ends last', ({ row }) => -(row?.eta_s ?? -1)],
  name: ['Name', () => 0],
};

const search = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', testid: 'campaigns-search', 'aria-label': 'Search campaigns by name', placeholder: 'Search', input: touch });
const state = h('select', { class: 'small', testid: 'campaigns-state', 'aria-label': 'State of campaigns', change: touch }, ...STATES.map(([value, text]) => h('option', { value, text })));
const order = h('select', { class: 'small', testid: 'campaigns-order', 'aria-label': 'Order of campaigns', change: touch }, ...Object.entries(ORDERS).map(([value, [text]]) => h('option', { value, text })));
let all = false;
const more = h('button', { type: 'button', hidden: true, testid: 'campaigns-all', click: () => {
  all = !all;
  touch();
} });
const none = h('p', { class: 'none', hidden: true, text: 'No campaign is like that.' });
const tools = h('div', { class: 'tools', hidden: true, role: 'search' }, search, state, order);

export function startTools() {
  byId('campaigns').append(tools, none);
}

/** Puts the button for the other campaigns below the list. */
export function endTools() {
  byId('campaigns').append(more);
}

/** The campaigns that are asked for, in the order that is asked for. @param {Listed[]} listed */
export function chosen(listed) {
  const many = listed.length >= MANY;
  show(tools, many);
  const words = search.value.trim().toLowerCase();
  let list = listed;
  if (many && words) list = list.filter(({ campaign }) => campaign.name.toLowerCase().includes(words));
  if (many && state.value) list = list.filter((one) => one.state === state.value);
  if (many && order.value === 'name') list = [...list].sort((a, b) => a.campaign.name.localeCompare(b.campaign.name));
  else if (many && order.value) {
    const [, by] = ORDERS[order.value];
    list = [...list].sort((a, b) => by(a) - by(b));
  }
  show(none, listed.length > 0 && list.length === 0);
  setText(byId('campaigns-count'), list.length === listed.length ? count(listed.length) : `${count(list.length)} of ${count(listed.length)}`);
  show(more, list.length > ROWS);
  setText(more, all ? `Show ${ROWS} only` : `Show all ${count(list.length)}`);
  return all ? list : list.slice(0, ROWS);
}
