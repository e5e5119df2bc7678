// Answers to what was done: spoken politely, and gone by themselves where nothing is left to read.

import { byId, h, icon } from './dom.js';

const SHOWN_MS = 12_000;

/**
 * @param {string} title
 * @param {string} text
 * @param {'good' | 'warn' | 'bad' | 'info'} [tone]
 */
export function toast(title, text, tone = 'good') {
  const box = h('div', { class: 'toast', 'data-tone': tone, testid: 'toast' },
    icon(tone),
    h('div', {}, h('p', { class: 'toast-title', text: title }), text ? h('p', { text }) : null),
    h('button', { type: 'button', class: 'quiet square', 'aria-label': 'Dismiss', click: () => box.remove() }, icon('close')));
  byId('toasts').append(box);
  while (byId('toasts').childElementCount > 3) byId('toasts').firstElementChild?.remove();
  if (tone === 'good' || tone === 'info') {
    let timer = setTimeout(() => box.remove(), SHOWN_MS);
    box.addEventListener('pointerenter', () => clearTimeout(timer));
    box.addEventListener('pointerleave', () => {
      timer = setTimeout(() => box.remove(), SHOWN_MS / 3);
    });
  }
}
