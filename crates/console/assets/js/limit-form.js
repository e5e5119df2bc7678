// Sets a limit, or removes it. Warm-ups and what is rarer are set by `tidegate limit set`.

import { answered, steer } from './actions.js';
import { h, setText } from './dom.js';
import { field, forgetDraft, openForm, present, signature } from './forms.js';
import { capital } from './model.js';
import { say } from './words.js';

/** @param {string} [of] the mail that it is for, such as a campaign's name */
export function openLimit(of = '') {
  const draft = `limit ${of}`;
  const inputs = {
    key: h('input', { type: 'text', required: true, autocomplete: 'off', testid: 'limit-key' }),
    rate: h('input', { type: 'text', autocomplete: 'off', testid: 'limit-rate' }),
    hours: h('input', { type: 'text', autocomplete: 'off', testid: 'limit-hours' }),
    zone: h('input', { type: 'text', autocomplete: 'off', testid: 'limit-zone' }),
  };
  inputs.key.value = of;
  inputs.zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? '';
  const form = openForm({
    name: 'limit', title: of ? `Limit ${of}` : 'Set a limit', confirm: 'Set the limit',
    submit: async () => {
      const signed = sign();
      if (!signed) return;
      const [rate, hours, zone] = [inputs.rate, inputs.hours, inputs.zone].map((input) => input.value.trim());
      const limit = { ...rate ? { rate } : {}, ...hours ? { hours, zone: zone || undefined } : {} };
      const done = await steer({ action: 'limit', key: inputs.key.value.trim(), limit, ...signed });
      forgetDraft(draft);
      form.close();
      answered('The limit is set', done);
    },
  });
  setText(form.lead, 'It is sent no faster than this, and only within the hours. A limit that it has now is replaced.');
  const fields = {
    key: field(`${capital(say.messages)} of`, inputs.key, 'A campaign, a domain such as gmail.com+googlemail.com, an address, sender:example.org, set:NAME or tenant:NAME.'),
    limit: field('Rate', inputs.rate, 'Such as 10/s, 5000/h or 25%. Empty: as fast as the quota.'),
    hours: field('Hours', inputs.hours, 'Such as Mon-Fri 08:00-20:00. Empty: at any time.'),
    zone: field('Time zone', inputs.zone, 'Of the hours, such as Europe/Berlin.'),
  };
  for (const [name, at] of Object.entries(fields)) {
    form.add(name, at);
    form.body.append(at.root);
  }
  const sign = signature(form, draft);
  present(form, of ? inputs.rate : inputs.key);
}

/** @param {string} key */
export function openLimitRemoval(key) {
  const draft = `no limit ${key}`;
  const form = openForm({
    name: 'no-limit', title: `Remove the limit of ${key}`, confirm: 'Remove the limit',
    submit: async () => {
      const signed = sign();
      if (!signed) return;
      const done = await steer({ action: 'limit', key, ...signed });
      forgetDraft(draft);
      form.close();
      answered('The limit is removed', done);
    },
  });
  setText(form.lead, 'It is then sent as fast as the quota and its campaign’s share allow.');
  const sign = signature(form, draft);
  present(form);
}
