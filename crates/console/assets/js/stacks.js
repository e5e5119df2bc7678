// The menu of stacks: those of the account, or the local runs.

import { ApiError, post } from './api.js';
import { byId, h, setText, show } from './dom.js';
import { openForm, present } from './forms.js';
import { mayAct, model } from './model.js';

/** @typedef {{this: string, names: string[], can_open: boolean}} Stacks */

export function startStacks() {
  byId('stacks').addEventListener('click', openStacks);
}

export function renderStacks() {
  show(byId('stacks'), model.session?.stacks ?? false);
}

/** @param {Stacks} stacks @param {string} name @param {(said: string) => void} fail */
function row(stacks, name, fail) {
  if (name === stacks.this) return h('li', {}, h('strong', { text: name }), h('span', { class: 'muted', text: 'this page' }));
  const option = model.session?.local ? `--local=${name}` : `--stack ${name}`;
  if (!stacks.can_open || !mayAct()) return h('li', {}, h('span', { text: name }), h('code', { text: `tidegate console ${option}` }));
  const open = h('button', { type: 'button', text: 'Open', 'aria-label': `Open ${name}`, click: async () => {
    open.disabled = true;
    try {
      const opened = await post('/api/stacks/open', { name });
      location.assign(opened?.url);
    } catch (error) {
      open.disabled = false;
      fail(error instanceof ApiError ? error.message : 'The console was not opened.');
    }
  } });
  return h('li', {}, h('span', { text: name }), open);
}

async function openStacks() {
  const form = openForm({ name: 'stacks', title: model.session?.local ? 'Local runs' : `Stacks in ${model.session?.region}`, confirm: 'Close', submit: async () => form.close() });
  setText(form.lead, 'Looking for stacks.');
  present(form, form.confirm);
  try {
    const answer = await fetch('/api/stacks', { cache: 'no-store', credentials: 'same-origin' });
    const said = await answer.json();
    if (!answer.ok) throw new ApiError(said.error, said.code, null);
    const stacks = /** @type {Stacks} */ (said);
    setText(form.lead, stacks.can_open ? 'Another stack opens on a port of its own.' : 'Each stack has a console of its own.');
    form.body.append(h('ul', { class: 'stacks', testid: 'stack-list' }, ...stacks.names.map((name) => row(stacks, name, form.fail))));
  } catch (error) {
    setText(form.lead, '');
    form.fail(error instanceof ApiError ? error.message : 'The stacks were not found.');
  }
}
