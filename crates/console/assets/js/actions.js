// Pause, resume, lift, the rate's cap: each with what will happen, a reason, and the answer.

import { post } from './api.js';
import { h, setText } from './dom.js';
import { field, forgetDraft, openForm, present, signature } from './forms.js';
import { clock, limit, sentence, words } from './format.js';
import { capital, model, wall } from './model.js';
import { toast } from './toast.js';
import { say } from './words.js';

/** @typedef {import('./types.js').Steered} Steered */
/** @typedef {import('./types.js').Hold} Hold */

const TIMES = [['', 'Until resumed'], ['900', '15 min'], ['3600', '1 h'], ['14400', '4 h']];

/** @param {string} title @param {Steered | null} done */
export function answered(title, done) {
  if (!done) {
    toast(title, 'Done.');
    return;
  }
  const held = done.still_held ?? [];
  const parts = [done.changed ? '' : 'It was so already, nothing was changed', done.detail ? capital(done.detail) : '',
    done.changed && done.in_force_within_s ? `In force within ${done.in_force_within_s} s` : '',
    held.length ? `Still held: ${held.map(words).join(', ')}` : '',
    done.recorded ? '' : 'The history could not be written'];
  toast(title, parts.filter(Boolean).map(sentence).join(' '), held.length || !done.recorded ? 'warn' : 'good');
}

/** @param {object} body @returns {Promise<Steered | null>} */
export function steer(body) {
  return post('/api/steer', body);
}

/** @param {string | null} campaign */
function target(campaign) {
  return campaign === null ? 'all sending' : campaign === 'express' ? `express ${say.messages}` : campaign;
}

/** @param {'pause' | 'resume'} action @param {string | null} campaign */
export function openSteer(action, campaign) {
  const what = target(campaign);
  const pause = action === 'pause';
  const key = `${action} ${campaign}`;
  let time = '';
  const form = openForm({
    name: action, title: `${pause ? 'Pause' : 'Resume'} ${what}`, confirm: pause ? `Pause ${what}` : `Resume ${what}`, tone: pause && campaign === null ? 'bad' : '',
    submit: async () => {
      const signed = sign();
      if (!signed) return;
      const done = await steer(pause ? { action, campaign, for_s: time ? Number(time) : null, ...signed } : { action, campaign, ...signed });
      forgetDraft(key);
      form.close();
      answered(`${pause ? 'Paused' : 'Resumed'} ${what}`, done);
    },
  });
  form.lead.classList.add('steady');
  const tell = () => setText(form.lead, pause ? pausing(campaign, time) : resuming(campaign));
  if (pause) {
    const times = h('fieldset', { class: 'segmented words wide-choice', testid: 'for' }, h('legend', { text: 'For how long' }));
    for (const [value, label] of TIMES) {
      const input = h('input', { type: 'radio', name: 'for', value, change: () => {
        time = value;
        tell();
      } });
      input.checked = value === '';
      times.append(h('label', {}, input, h('span', { text: label })));
    }
    form.body.append(h('div', { class: 'field' }, times));
  }
  const sign = signature(form, key);
  tell();
  present(form, form.body.querySelector('textarea'));
}

/** @param {string | null} campaign @param {string} time */
function pausing(campaign, time) {
  const until = time ? `until about ${clock(wall() + Number(time) * 1000)}, then goes on by itself` : 'until someone resumes it';
  if (campaign === null) return `All sending stops, express ${say.messages} included, ${until}. What waits keeps waiting; no ${say.message} loses an attempt.`;
  if (campaign === 'express') return `No express ${say.message} is sent ${until}. The campaigns get the slots; no ${say.message} loses an attempt.`;
  return `${campaign} sends nothing ${until}. What waits keeps waiting and loses no attempt; the other campaigns get its slots.`;
}

/** @param {string | null} campaign */
function resuming(campaign) {
  const rest = (model.figures?.status.holds ?? []).filter((hold) => hold.campaign === campaign && hold.reason !== 'paused').map((hold) => words(hold.reason));
  const all = campaign === null ? [] : (model.figures?.status.holds ?? []).filter((hold) => hold.campaign === null).map((hold) => words(hold.reason));
  const start = campaign === null ? 'The pause of all sending ends, and what waits goes out again within 2 s.' : `The pause of ${target(campaign)} ends, and what waits goes out again within 2 s.`;
  const still = rest.length ? ` It stays held all the same: ${rest.join(', ')}.` : all.length ? ` All sending is held all the same: ${all.join(', ')}.` : campaign === null ? ' Campaigns that are held or paused by themselves stay so.' : '';
  return start + still;
}

/** @param {Hold} hold */
export function openLift(hold) {
  const what = target(hold.campaign);
  const key = `lift ${hold.campaign} ${hold.reason}`;
  const form = openForm({
    name: 'lift', title: `Lift the hold of ${what}`, confirm: 'Lift the hold', tone: 'bad',
    submit: async () => {
      const signed = sign();
      if (!signed) return;
      const done = await steer({ action: 'lift', campaign: hold.campaign, hold: hold.reason, ...signed });
      forgetDraft(key);
      form.close();
      answered(`Lifted ${words(hold.reason)} of ${what}`, done);
    },
  });
  setText(form.lead, `The hold “${words(hold.reason)}” of ${what} is taken away${hold.detail ? ` (${hold.detail})` : ''}. What waits goes out again within 2 s; where the cause still stands, it may be held again.`);
  const sign = signature(form, key);
  present(form);
}

export function openRate() {
  const key = 'rate';
  const quota = model.figures?.status.quota;
  let capped = quota?.operator_cap !== null && quota?.operator_cap !== undefined;
  const number = h('input', { type: 'number', min: '0.001', max: '10000', step: 'any', inputmode: 'decimal', testid: 'cap' });
  number.value = capped ? String(quota?.operator_cap) : '';
  const form = openForm({
    name: 'rate', title: 'Cap the rate', confirm: 'Set the cap',
    submit: async () => {
      const signed = sign();
      if (!signed) return;
      const cap = capped ? Number(number.value) : null;
      if (cap !== null && !(cap >= 0.001 && cap <= 10_000)) {
        form.fail(`The cap is ${number.value.trim() || 'missing'}: 0.001 to 10,000 ${say.unit}s a second are allowed.`, 'cap');
        return;
      }
      const done = await steer({ action: 'rate', cap, ...signed });
      forgetDraft(key);
      form.close();
      answered(cap === null ? 'The cap is taken away' : `The rate is capped at ${limit(cap)} a second`, done);
    },
  });
  form.lead.classList.add('steady');
  const tell = () => {
    const allowed = quota?.account_per_second ?? null;
    const cap = Number(number.value);
    setText(form.confirm, capped ? 'Set the cap' : 'Take the cap away');
    number.disabled = !capped;
    if (!capped) setText(form.lead, `No cap by an operator stands any more${allowed === null ? '' : `; ${say.service} allows ${limit(allowed)} a second`}. Refusals may lower the rate all the same.`);
    else if (!(cap > 0)) setText(form.lead, `All campaigns and express ${say.messages} together send no more than the cap${allowed === null ? '' : `; ${say.service} allows ${limit(allowed)} a second`}.`);
    else setText(form.lead, `All campaigns and express ${say.messages} together send at most ${limit(cap)} ${say.unit}s a second${allowed !== null && cap >= allowed ? `, which lowers nothing: ${say.service} allows ${limit(allowed)}` : ''}. Refusals may lower it further.`);
  };
  const choice = h('fieldset', { class: 'segmented words wide-choice' }, h('legend', { text: 'Cap' }));
  for (const [value, label] of [['cap', 'A cap'], ['none', 'No cap']]) {
    const input = h('input', { type: 'radio', name: 'capped', value, testid: `cap-${value}`, change: () => {
      capped = value === 'cap';
      tell();
      if (capped) number.focus();
    } });
    input.checked = (value === 'cap') === (capped || quota?.operator_cap === null);
    choice.append(h('label', {}, input, h('span', { text: label })));
  }
  capped = /** @type {HTMLInputElement} */ (choice.querySelector('input')).checked;
  number.addEventListener('input', tell);
  const cap = field(`${capital(say.unit)}s a second`, number);
  form.add('cap', cap);
  form.body.append(h('div', { class: 'field' }, choice), cap.root);
  const sign = signature(form, key);
  tell();
  present(form, capped ? number : form.body.querySelector('textarea'));
}
