// The reviewed replay: filter, review, reason and rate, progress. Nothing is sent that was not shown.

import { ApiError, post } from './api.js';
import { replayText } from './dead.js';
import { h, setBar, setText, show } from './dom.js';
import { field, forgetDraft, openForm, present, signature } from './forms.js';
import { count, limit, plural, span } from './format.js';
import { capital, model, onFrame } from './model.js';
import { toast } from './toast.js';
import { say } from './words.js';

/** @typedef {import('./types.js').Review} Review */

const STEPS = ['Choose', 'Review', 'Confirm', 'Progress'];
const NAMES = ['filter', 'review', 'reason', 'progress'];
const KEY = 'replay';

/** @type {(() => void) | null} */
let progress = null;
onFrame(() => progress?.());

export async function stopReplay() {
  try {
    await post('/api/dead/stop', {});
    toast('The replay is being stopped', 'What was sent to its campaign stays there; the other letters stay.', 'info');
  } catch (error) {
    toast('The replay was not stopped', error instanceof ApiError ? error.message : 'The page failed.', 'bad');
  }
}

/** @param {string} label @param {string} hint @param {string} testid */
function check(label, hint, testid) {
  const input = h('input', { type: 'checkbox', testid });
  return { root: h('label', { class: 'check' }, input, h('span', {}, h('span', { text: label }), h('span', { class: 'field-hint', text: hint }))), input };
}

/** @param {string} label @param {string[]} names @param {string | undefined} chosen @param {string} testid */
function choice(label, names, chosen, testid) {
  const select = h('select', { testid }, h('option', { value: '', text: 'All' }), ...names.map((name) => h('option', { value: name, text: name })));
  select.value = chosen && names.includes(chosen) ? chosen : '';
  return field(label, select);
}

/** @param {Review} review */
function reviewed(review) {
  const heads = ['Campaign', 'Reason', 'Letters', 'To send', 'Sent already', 'Perhaps sent', 'Cannot'];
  /** @param {number} n */
  const number = (n) => h('td', { class: 'number', 'data-value': n, text: n ? count(n) : '–' });
  const notes = review.refusals.map(({ why, letters }) => h('li', { text: `${count(letters)} not sent: ${why}` }));
  if (!review.guarded) notes.push(h('li', { text: `Deduplication is off: nothing but the code and the answer tells whether a ${say.message} was sent.` }));
  if (!review.whole) notes.push(h('li', { text: 'Not all letters could be read: somebody else reads them, or there are too many at once.' }));
  if (review.to_drop) notes.push(h('li', { text: `${plural(review.to_drop, 'letter')} of ${say.message}s that were sent would be deleted.` }));
  return [
    h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'What would be sent' }, h('table', { class: 'plain', testid: 'review-table' }, h('caption', { class: 'hidden', text: 'What would be sent, and what not' }),
      h('thead', {}, h('tr', {}, ...heads.map((text) => h('th', { scope: 'col', text })))),
      h('tbody', {}, ...review.groups.map((group) => h('tr', {}, h('th', { scope: 'row', text: group.campaign ?? '–' }), h('td', { class: 'code', text: group.code ?? '–' }),
        number(group.letters), number(group.to_send), number(group.sent_already), number(group.perhaps_sent), number(group.cannot)))))),
    h('ul', { class: 'notes' }, ...notes),
  ];
}

/**
 * `body` and `review`: of one letter that was corrected. `sent`: called when its replay has begun.
 * @param {{campaign?: string, code?: string, id?: string, body?: string, review?: Review, sent?: () => void}} filter
 */
export function openReplay(filter) {
  let step = model.replay?.running ? 3 : 0;
  /** @type {Review | null} */
  let review = null;
  const form = openForm({ name: 'replay', title: 'Replay dead letters', confirm: 'Review', wide: true, submit: next });

  const code = choice('Reason', [...new Set((model.dead?.groups ?? []).flatMap((group) => group.code ?? []))], filter.code, 'replay-code');
  const campaign = choice('Campaign', (model.figures?.status.campaigns ?? []).map((one) => one.name), filter.campaign, 'replay-campaign');
  const id = field(`Id of one ${say.message}`, h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', testid: 'replay-id' }), 'Empty: all that the other two let through.');
  id.input.value = filter.id ?? '';
  const unknown = check('Include what may have been sent', 'Their last send had no answer. Some of them may arrive twice.', 'replay-include-unknown');
  const drop = check(`Delete letters of ${say.message}s that were sent`, `Where deduplication knows a ${say.message} as sent, its letter is no longer needed.`, 'replay-drop-sent');
  for (const [name, one] of Object.entries({ code, campaign, id })) form.add(name, one);

  const per = field(`${capital(say.message)}s a second`, h('input', { type: 'number', min: '0.01', max: '10000', step: 'any', inputmode: 'decimal', testid: 'replay-rate' }), 'Empty: half the rate in force.');
  form.add('per_second', per);
  const bar = h('span', { class: 'meter-fill' });
  const meter = h('span', { class: 'meter thick', role: 'progressbar', 'aria-label': 'Replay', 'aria-valuemin': 0, 'aria-valuemax': 100 }, bar);
  const said = h('p', { 'aria-live': 'polite' });
  const stop = h('button', { type: 'button', text: 'Stop', click: stopReplay, testid: 'replay-stop-dialog' });
  const table = h('div');
  const signed = h('div');
  const pages = [
    h('div', {}, h('div', { class: 'two' }, code.root, campaign.root), id.root, unknown.root, drop.root),
    table, signed, h('div', {}, said, meter, h('p', { class: 'row-end' }, stop)),
  ];
  pages.forEach((page, k) => {
    page.className = 'step';
    page.dataset.testid = `replay-step-${NAMES[k]}`;
  });
  const trail = h('ol', { class: 'steps' }, ...STEPS.map((text) => h('li', { text })));
  form.body.append(trail, ...pages);
  const before = form.body.children.length;
  const sign = signature(form, KEY);
  signed.append(per.root, ...[...form.body.children].slice(before));
  const back = h('button', { type: 'button', text: 'Back', testid: 'replay-back', click: () => go(step - 1) });
  form.confirm.before(back);

  /** @param {number} to */
  function go(to) {
    step = to;
    form.clear();
    pages.forEach((page, k) => show(page, k === step));
    [...trail.children].forEach((item, k) => {
      item.className = k < step ? 'done' : '';
      if (k === step) item.setAttribute('aria-current', 'step');
      else item.removeAttribute('aria-current');
    });
    show(back, step === 1 || step === 2);
    show(form.confirm, step < 3);
    const many = review?.to_send ?? 0;
    setText(form.confirm, step === 0 ? 'Review' : step === 1 ? 'Go on' : many ? `Send ${plural(many, say.message)} again` : 'Delete the letters');
    setText(/** @type {Element} */ (form.dialog.querySelector('[data-testid=cancel]')), step === 3 ? 'Close' : 'Cancel');
    setText(form.lead, lead());
    const focus = /** @type {HTMLElement | null} */ (pages[step].querySelector('select, textarea, .scroll, button'));
    if (form.dialog.open) focus?.focus();
    shown();
  }

  function lead() {
    if (step === 0) return 'Choose which letters are looked at. Nothing is sent before you have seen what it would be.';
    if (step === 3) return 'The replay goes on when this dialog is closed. Its progress stands beside the dead letters.';
    if (!review) return '';
    const drops = review.to_drop ? `; ${plural(review.to_drop, 'letter')} would be deleted` : '';
    const takes = review.takes_s && review.to_send ? `, in about ${span(review.takes_s)} at ${limit(review.per_second)} ${say.message}s a second` : '';
    return review.to_send || review.to_drop ? `${plural(review.to_send, say.message)} would be sent to ${review.to_send === 1 ? 'its campaign' : 'their campaigns'} again${takes}${drops}.`
      : 'None of these letters would be sent again.';
  }

  /** @param {Review} made */
  function showReview(made) {
    table.replaceChildren(...reviewed(made));
    /** @type {HTMLInputElement} */ (per.input).placeholder = limit(made.per_second);
    go(1);
  }

  async function next() {
    form.clear();
    if (step === 0) {
      setText(form.confirm, 'Reading the letters');
      try {
        review = await post('/api/dead/review', {
          body: filter.body ?? null, code: code.input.value || null, campaign: campaign.input.value || null, id: id.input.value.trim() || null,
          include_unknown: unknown.input.checked, drop_sent: drop.input.checked,
        });
      } finally {
        setText(form.confirm, 'Review');
      }
      if (review) showReview(review);
    } else if (step === 1) {
      if (review && (review.to_send || review.to_drop)) go(2);
      else form.fail('There is nothing to send. Go back and choose other letters.');
    } else if (step === 2) await start();
  }

  async function start() {
    const who = sign();
    if (!who || !review) return;
    const text = per.input.value.trim();
    if (text && !(Number(text) >= 0.01 && Number(text) <= 10_000)) {
      form.fail(`The rate is ${text}: 0.01 to 10,000 ${say.message}s a second are allowed, or nothing.`, 'per_second');
      return;
    }
    const begun = await post('/api/dead/replay', { review: review.review, ...who, per_second: text ? Number(text) : null });
    forgetDraft(KEY);
    filter.sent?.();
    model.replay = { running: true, sent: 0, of: begun?.of ?? review.to_send, waits: false, said: null, error: null };
    go(3);
  }

  function shown() {
    const { replay } = model;
    if (step !== 3 || !replay) return;
    const share = replay.of > 0 ? replay.sent / replay.of : 0;
    setText(said, replayText(replay));
    setBar(bar, replay.running ? share : replay.error ? share : 1);
    meter.setAttribute('aria-valuenow', String(Math.round(share * 100)));
    show(stop, replay.running);
  }

  progress = shown;
  form.dialog.addEventListener('close', () => {
    progress = null;
  });
  if (step === 0 && filter.review) {
    review = filter.review;
    showReview(review);
  } else go(step);
  present(form, /** @type {HTMLElement | null} */ (pages[step].querySelector('select, button')));
}

