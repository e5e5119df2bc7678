// Who acts: a name that the browser remembers, where it may.

import { byId, h, icon, setText } from './dom.js';
import { field, openForm, present } from './forms.js';
import { mayAct, model } from './model.js';

const KEY = 'tidegate.by';
let name = '';
try {
  name = localStorage.getItem(KEY) ?? '';
} catch {
  // Without storage the name stands until the page is left.
}

/** The name of the token stands above the one that was typed here. */
export function who() {
  return model.session?.name ?? name;
}

/** @param {string} next */
export function setWho(next) {
  name = next;
  try {
    if (next) localStorage.setItem(KEY, next);
    else localStorage.removeItem(KEY);
  } catch {
    // See above.
  }
  renderWho();
}

export function startWho() {
  byId('who').append(icon('person'), h('span', { class: 'who-name' }));
  byId('who').addEventListener('click', openWho);
}

export function openWho() {
  const input = h('input', { type: 'text', autocomplete: 'name', testid: 'by' });
  input.value = name;
  const form = openForm({
    name: 'who', title: 'Who acts', confirm: 'Remember',
    submit: async () => {
      const next = input.value.trim();
      if ([...next].length > 60) form.fail('The name is too long: 1 to 60 characters.', 'by');
      else {
        setWho(next);
        form.close();
      }
    },
  });
  const named = field('Name', input, 'Empty: as the console knows you.');
  form.add('by', named);
  form.lead.textContent = 'Each change is kept in the history with this name. It is remembered in this browser alone.';
  form.body.append(named.root);
  present(form);
}

export function renderWho() {
  const own = model.session?.name;
  const shown = who() || model.session?.operator || 'no name';
  const label = byId('who').querySelector('.who-name');
  if (label) setText(label, shown);
  /** @type {HTMLButtonElement} */ (byId('who')).disabled = Boolean(own);
  const acts = own ? `The token of ${own}, which may ${mayAct() ? 'look and act' : 'look'}` : `Who acts: ${shown}`;
  byId('who').title = acts;
  byId('who').setAttribute('aria-label', own ? acts : `${acts}. Change it`);
}
