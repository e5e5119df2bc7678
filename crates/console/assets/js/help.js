// Keys, and the field's words in a sentence each.

import { openSteer } from './actions.js';
import { byId, h, icon } from './dom.js';
import { dialogOpen } from './forms.js';
import { mayAct, model } from './model.js';
import { openWeights } from './weights.js';
import { askWhy } from './why.js';
import { say } from './words.js';

const KEYS = [['?', 'This help'], ['p', 'Pause all sending, or resume it'], ['w', 'Weights of all campaigns'], ['/', 'Why is this message waiting?'], ['Esc', 'Closes a dialog; nothing is changed']];
const terms = () => [
  ['Window', 'A whole second. One poller serves it.'],
  ['Slot', `A moment at which one ${say.unit} may be sent. Slots stand evenly, a little below the quota.`],
  ['Quota', `How many ${say.unit}s ${say.service} allows the account, a second${say.limit === 'daily quota' ? ' and in 24 hours' : ''}.`],
  ['Campaign', `A queue of ${say.message}s with a weight. The weights share the slots.`],
  ['Express', 'What takes every slot before the campaigns’.'],
  ['Hold', `Something that stops all sending or one campaign. No hold costs a ${say.message} an attempt.`],
  ['Breaker', `Stops all sending while ${say.service} fails, and probes with one ${say.message} at a time.`],
  ['Visibility timeout', `How long SQS hides a ${say.message} that was received. What is not sent is seen again after it.`],
  ['Dead letter', `A ${say.message} that is not sent: refused for good, all attempts spent, or cancelled and kept. It stays until someone replays or removes it.`],
];

export function openHelp() {
  const close = h('button', { type: 'button', class: 'quiet square', 'aria-label': 'Close', click: () => dialog.close() }, icon('close'));
  const dialog = h('dialog', { testid: 'dialog-help', 'aria-labelledby': 'help-title' }, h('div', { class: 'dialog-form' },
    h('header', { class: 'dialog-head' }, h('h2', { id: 'help-title', text: 'Help' }), close),
    h('div', { class: 'dialog-scroll', tabindex: 0, role: 'region', 'aria-label': 'Keys and words' },
      h('h3', { text: 'Keys' }), h('dl', { class: 'keys' }, ...KEYS.flatMap(([key, text]) => [h('dt', {}, h('kbd', { text: key })), h('dd', { text })])),
      h('h3', { text: 'Words' }), h('dl', { class: 'terms' }, ...terms().flatMap(([word, text]) => [h('dt', { text: word }), h('dd', { text })])))));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function pausedAll() {
  return model.figures?.status.holds.some((hold) => hold.campaign === null && hold.reason === 'paused') ?? false;
}

export function startKeys() {
  byId('help').addEventListener('click', openHelp);
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || dialogOpen()) return;
    const at = /** @type {HTMLElement} */ (event.target);
    if (at.closest('input:not([type=radio]), textarea, select')) return;
    const looks = { '?': openHelp, '/': () => askWhy() };
    const acts = { p: () => openSteer(pausedAll() ? 'resume' : 'pause', null), w: () => openWeights() };
    const act = /** @type {{[key: string]: () => void}} */ (mayAct() ? { ...looks, ...acts } : looks)[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
