// A dialog with a form: what will happen, fields, reason, who; what was typed outlives an error and Esc.

import { ApiError } from './api.js';
import { h, icon, setText } from './dom.js';
import { count } from './format.js';
import { model } from './model.js';
import { setWho, who } from './who.js';

const REASON_CHARS = 200;
const WHO_CHARS = 60;

/** @type {Map<string, string>} reasons typed and not sent, by dialog */
const drafts = new Map();
let made = 0;

/**
 * @typedef {{root: HTMLElement, input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement, error: HTMLElement}} Field
 *
 * @typedef {object} Form
 * @property {HTMLDialogElement} dialog
 * @property {HTMLElement} lead says what will happen
 * @property {HTMLElement} body
 * @property {HTMLButtonElement} confirm
 * @property {(name: string, field: Field) => void} add
 * @property {(message: string, field?: string | null) => void} fail
 * @property {() => void} clear
 * @property {() => void} close
 */

/**
 * @param {string} label
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input
 * @param {string} [hint]
 * @returns {Field}
 */
export function field(label, input, hint = '') {
  const id = `field-${made++}`;
  input.id = id;
  const error = h('p', { class: 'field-error', id: `${id}-error` });
  const note = hint ? h('p', { class: 'field-hint', id: `${id}-hint`, text: hint }) : null;
  input.setAttribute('aria-describedby', `${note ? `${id}-hint ` : ''}${id}-error`);
  return { root: h('div', { class: 'field' }, h('label', { for: id, text: label }), input, note, error), input, error };
}

/** @param {Form} form @param {string} key @returns {() => {reason: string, by: string | undefined} | null} */
export function signature(form, key) {
  const input = h('textarea', { rows: 2, required: true, testid: 'reason', autocomplete: 'off' });
  input.value = drafts.get(key) ?? '';
  const reason = field('Reason', input, 'Kept in the history, for whoever looks later.');
  const counter = h('span', { class: 'counter', 'aria-hidden': 'true' });
  reason.root.prepend(counter);
  const tell = () => {
    const used = [...input.value.trim()].length;
    setText(counter, `${count(used)} of ${REASON_CHARS}`);
    counter.classList.toggle('over', used > REASON_CHARS);
    drafts.set(key, input.value);
  };
  input.addEventListener('input', tell);
  // Enter confirms as in any form; a line break has no place in a reason.
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.isComposing) return;
    event.preventDefault();
    form.confirm.form?.requestSubmit();
  });
  tell();
  const name = h('input', { type: 'text', autocomplete: 'name', testid: 'by' });
  name.value = who();
  name.placeholder = model.session?.operator ?? '';
  const by = field('Who acts', name, 'Without a name: as the console knows you.');
  form.add('reason', reason);
  form.add('by', by);
  form.body.append(reason.root);
  // The history takes the name of the token.
  if (!model.session?.name) form.body.append(by.root);
  return () => {
    form.clear();
    const text = input.value.trim();
    const signed = name.value.trim();
    const used = [...text].length;
    if (used === 0) form.fail('The reason is missing: 1 to 200 characters.', 'reason');
    else if (used > REASON_CHARS) form.fail(`The reason has ${used} characters: 1 to 200 are allowed.`, 'reason');
    else if ([...signed].length > WHO_CHARS) form.fail('The name is too long: 1 to 60 characters.', 'by');
    else {
      if (!model.session?.name) setWho(signed);
      return { reason: text.replace(/\s+/g, ' '), by: signed || undefined };
    }
    return null;
  };
}

/** @param {string} key */
export function forgetDraft(key) {
  drafts.delete(key);
}

/**
 * @param {{name: string, title: string, confirm: string, tone?: string, wide?: boolean,
 *   submit: (form: Form) => Promise<void>}} how
 * @returns {Form}
 */
export function openForm(how) {
  const id = `dialog-${made++}`;
  /** @type {Map<string, Field>} */
  const fields = new Map();
  const lead = h('p', { class: 'lead', id: `${id}-lead` });
  const body = h('div', { class: 'dialog-body' });
  const error = h('p', { class: 'dialog-error', role: 'alert' });
  const confirm = h('button', { type: 'submit', class: how.tone === 'bad' ? 'primary danger' : 'primary', testid: 'confirm', text: how.confirm });
  const cancel = h('button', { type: 'button', text: 'Cancel', click: () => dialog.close(), testid: 'cancel' });
  const formElement = h('form', { novalidate: true, class: 'dialog-form' },
    h('header', { class: 'dialog-head' }, h('h2', { id: `${id}-title`, text: how.title }),
      h('button', { type: 'button', class: 'quiet square', 'aria-label': 'Close', click: () => dialog.close() }, icon('close'))),
    h('div', { class: 'dialog-scroll' }, lead, body, error),
    h('footer', { class: 'dialog-foot' }, cancel, confirm));
  const dialog = h('dialog', { class: how.wide ? 'wide' : null, testid: `dialog-${how.name}`, 'aria-labelledby': `${id}-title`, 'aria-describedby': `${id}-lead` }, formElement);
  let busy = false;

  /** @type {Form} */
  const form = {
    dialog, lead, body, confirm,
    add: (name, added) => fields.set(name, added),
    fail: (message, name) => {
      const at = name ? fields.get(name) : undefined;
      if (!at) {
        setText(error, message);
        return;
      }
      setText(at.error, message);
      at.input.setAttribute('aria-invalid', 'true');
      at.input.focus();
    },
    clear: () => {
      setText(error, '');
      for (const { input, error: text } of fields.values()) {
        setText(text, '');
        input.removeAttribute('aria-invalid');
      }
    },
    close: () => dialog.close(),
  };
  formElement.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (busy) return;
    busy = true;
    confirm.setAttribute('aria-busy', 'true');
    try {
      await how.submit(form);
    } catch (thrown) {
      if (thrown instanceof ApiError) form.fail(thrown.message, thrown.field);
      else {
        console.error(thrown);
        form.fail('The page failed at this. Reload it, and look whether the change was made.');
      }
    } finally {
      busy = false;
      confirm.removeAttribute('aria-busy');
    }
  });
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  return form;
}

/** @param {Form} form @param {HTMLElement | null} [focus] */
export function present(form, focus) {
  form.dialog.showModal();
  (focus ?? /** @type {HTMLElement | null} */ (form.body.querySelector('input:not([type=radio]), textarea, select')))?.focus();
}

export function dialogOpen() {
  return document.querySelector('dialog[open]') !== null;
}
