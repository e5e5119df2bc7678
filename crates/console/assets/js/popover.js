// Short explanations and menus, in the browser's own popovers, placed at their button.

import { h, icon } from './dom.js';

let made = 0;

/** @param {HTMLElement} pop @param {HTMLElement} button */
function place(pop, button) {
  const at = button.getBoundingClientRect();
  const width = pop.offsetWidth;
  const height = pop.offsetHeight;
  const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8));
  const below = at.bottom + 6;
  const top = below + height < innerHeight - 8 ? below : Math.max(8, at.top - height - 6);
  pop.style.left = `${left}px`;
  pop.style.top = `${top}px`;
}

/** @param {HTMLElement} pop @param {HTMLElement} button */
function attach(pop, button) {
  button.setAttribute('popovertarget', pop.id);
  pop.addEventListener('toggle', (event) => {
    const open = /** @type {ToggleEvent} */ (event).newState === 'open';
    button.setAttribute('aria-expanded', String(open));
    if (open) place(pop, button);
  });
}

// A popover stands on the window: it follows what it points at.
for (const moved of ['scroll', 'resize']) {
  addEventListener(moved, () => {
    for (const pop of document.querySelectorAll('.pop:popover-open')) {
      const button = document.querySelector(`[popovertarget="${pop.id}"]`);
      if (button) place(/** @type {HTMLElement} */ (pop), /** @type {HTMLElement} */ (button));
    }
  }, { passive: true, capture: true });
}

/** @param {string} title @param {string} text */
export function explain(title, text) {
  const id = `explain-${made++}`;
  const button = h('button', { type: 'button', class: 'explain', 'aria-label': `What is meant: ${title}`, 'aria-expanded': 'false' }, icon('info'));
  const pop = h('div', { id, class: 'pop', popover: 'auto' }, h('p', { text }));
  attach(pop, button);
  return h('span', { class: 'explain-box' }, button, pop);
}

/**
 * @param {string} label
 * @param {() => {text: string, act: () => void, testid?: string}[]} entries made anew with each opening
 */
export function menu(label, entries) {
  const id = `menu-${made++}`;
  const button = h('button', { type: 'button', class: 'quiet square', 'aria-label': label, 'aria-expanded': 'false', title: label }, icon('more'));
  const pop = h('div', { id, class: 'pop menu', popover: 'auto' });
  pop.addEventListener('beforetoggle', (event) => {
    if (/** @type {ToggleEvent} */ (event).newState !== 'open') return;
    pop.replaceChildren(...entries().map(({ text, act, testid }) => h('button', {
      type: 'button', text, testid,
      click: () => {
        pop.hidePopover();
        // A dialog gives the focus back to what had it when it opened.
        button.focus();
        act();
      },
    })));
  });
  attach(pop, button);
  return h('span', { class: 'menu-box' }, button, pop);
}
