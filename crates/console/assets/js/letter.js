// One dead letter: all that is known of it, its body with masked addresses, and what can be done with it.

import { post } from './api.js';
import { h, setText } from './dom.js';
import { field, forgetDraft, openForm, present, signature } from './forms.js';
import { clockSeconds, count, plural } from './format.js';
import { mayAct, model, touch } from './model.js';
import { openReplay } from './replay.js';
import { toast } from './toast.js';
import { named } from './view.js';
import { say } from './words.js';

const PREFIX = '#letter=';

/** Where the page was before the letter. */
let before = '';
/** @type {Map<string, string>} corrected bodies that were not sent, by letter */
const corrections = new Map();

/** @param {string} id */
export function letterAddress(id) {
  return PREFIX + encodeURIComponent(id);
}

/** @param {import('./types.js').LetterDetails} letter @returns {[string, string][]} */
function fields(letter) {
  const time = (/** @type {string | null} */ at) => (at ? clockSeconds(at) : '–');
  return [
    ['Campaign', letter.campaign ?? '–'], ['Id', letter.id ?? '–'], ['To', (letter.to ?? []).join(', ') || '–'],
    ['Reason', letter.foreign ? 'no dead letter of Tidegate’s' : `${letter.code ?? '–'}${letter.http_status ? ` (${letter.http_status})` : ''}`],
    ['Said', letter.said ?? (typeof letter.foreign === 'string' ? letter.foreign : '–')],
    ['Attempts', count(letter.attempts)], ['Dead-lettered', time(letter.since)], ['Enqueued', time(letter.enqueued_at)],
    ['First attempt', time(letter.first_attempt_at)], ['Last attempt', time(letter.last_attempt_at)],
    ['Identity', letter.identity ?? '–'], ['Message', letter.message_id],
  ];
}

/** The body for people: JSON in lines. @param {string} body */
function legible(body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

/** Asks for another body, and goes on with the replay's review. @param {import('./types.js').LetterDetails} letter */
function openCorrection(letter) {
  const id = letter.message_id;
  const form = openForm({
    name: 'correct', title: 'Correct a dead letter', confirm: 'Review', wide: true,
    submit: async () => {
      form.clear();
      const review = await post('/api/dead/review', { id, body: input.value });
      form.close();
      openReplay({ id, body: input.value, review, sent: () => corrections.delete(id) });
    },
  });
  setText(form.lead, `The ${say.message} is sent again with this body, as the same ${say.message}: its id stays.${model.session?.addresses_shown ? '' : ` A masked ${say.address} (***) that stays where it is means the one that stood there; a new one is written in full.`}`);
  const input = h('textarea', { rows: 14, class: 'code', spellcheck: 'false', autocomplete: 'off', testid: 'corrected' });
  input.value = corrections.get(id) ?? legible(letter.body ?? '');
  input.addEventListener('input', () => corrections.set(id, input.value));
  const body = field('Body', input);
  form.add('body', body);
  form.body.append(body.root);
  present(form);
}

/** @param {string} id an SQS message id of the letter */
async function openLetter(id) {
  const key = `letter ${id}`;
  const acts = mayAct();
  const form = openForm({
    name: 'letter', title: 'Dead letter', confirm: acts ? 'Discard it' : 'Close', tone: acts ? 'bad' : '', wide: true,
    submit: async () => {
      if (!acts) {
        form.close();
        return;
      }
      const signed = sign?.();
      if (!signed) return;
      const done = await post('/api/dead/discard', { id, ...signed });
      if (!done?.dropped) {
        form.fail('The letter was not deleted: somebody else reads the letters. Try again in half a minute.');
        return;
      }
      forgetDraft(key);
      form.close();
      toast('The letter is discarded', 'It is deleted for good.', 'warn');
    },
  });
  /** @type {import('./types.js').LetterDetails | undefined} */
  let letter;
  setText(form.lead, 'Reading the letter.');
  const host = h('div', { testid: 'letter' });
  form.body.append(host);
  const sign = acts ? signature(form, key) : null;
  const correct = h('button', { type: 'button', text: 'Correct it', testid: 'letter-correct', disabled: true, click: () => {
    if (!letter) return;
    form.close();
    openCorrection(letter);
  } });
  if (acts) {
    form.confirm.before(correct,
      h('button', { type: 'button', text: 'Replay it', testid: 'letter-replay', click: () => {
        form.close();
        openReplay({ id });
      } }));
  }
  form.dialog.addEventListener('close', () => {
    if (!location.hash.startsWith(PREFIX)) return;
    history.replaceState(null, '', before || location.pathname);
    touch();
  });
  // Not a button: the Enter that opened the link would press it, too, where the key is held or the page is slow.
  form.lead.tabIndex = -1;
  present(form, form.lead);
  try {
    [letter] = /** @type {import('./types.js').LetterDetails[]} */ (await post('/api/dead/show', { id }));
  } catch (error) {
    form.confirm.disabled = acts;
    setText(form.lead, '');
    form.fail(error instanceof Error ? error.message : 'The letter was not read.');
    return;
  }
  correct.disabled = false;
  setText(form.lead, acts ? 'A replay shows first what it would do, and sends nothing before that is confirmed. To discard a letter is for good.' : 'This token may look, and change nothing.');
  host.append(
    h('dl', { class: 'letter-fields' }, ...fields(letter).flatMap(([name, text]) => [h('dt', { text: name }), h('dd', { text })])),
    h('h3', { text: `Body, ${plural(letter.bytes, 'byte')}` }),
    h('pre', { class: 'letter-body', tabindex: 0, role: 'region', 'aria-label': `Body of the ${say.message}`, text: letter.body ?? '' }));
}

/** @param {HashChangeEvent} [event] */
function followAddress(event) {
  const id = named(PREFIX);
  if (id === null) return;
  before = event ? new URL(event.oldURL).hash : '';
  openLetter(id);
}

/** Once the page knows who it is: the address may name a letter. */
export function startLetters() {
  addEventListener('hashchange', followAddress);
  followAddress();
}
