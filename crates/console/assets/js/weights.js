// All weights at once, with the shares that they come to.

import { answered, steer } from './actions.js';
import { h, setAttr, setBar, setText } from './dom.js';
import { field, forgetDraft, openForm, present, signature } from './forms.js';
import { count, percent, plural } from './format.js';
import { model } from './model.js';
import { say } from './words.js';

const MOST = 10_000;
const KEY = 'weights';

/** @param {string} text @returns {number | null} */
function weightOf(text) {
  const value = text.trim();
  return /^\d+$/.test(value) && Number(value) <= MOST ? Number(value) : null;
}

/** @param {string} [first] the campaign to begin at */
export function openWeights(first) {
  const campaigns = model.figures?.status.campaigns ?? [];
  if (campaigns.length === 0) return;
  let reset = false;
  const rows = campaigns.map((campaign) => {
    const input = h('input', { type: 'number', min: 0, max: MOST, step: 1, inputmode: 'numeric', 'aria-label': `Weight of ${campaign.name}`, testid: `weight-${campaign.name}` });
    input.value = String(campaign.weight);
    const fill = h('span', { class: 'meter-fill' });
    const share = h('span', { class: 'number', testid: `share-${campaign.name}` });
    const at = field(`Weight of ${campaign.name}`, input);
    return { campaign, input, fill, share, at };
  });
  const form = openForm({
    name: 'weights', title: 'Weights', confirm: 'Set the weights', wide: true,
    submit: async () => {
      const signed = sign();
      if (!signed) return;
      const wrong = rows.find(({ input }) => weightOf(input.value) === null);
      if (wrong) {
        form.fail(`A whole number from 0 to ${count(MOST)}.`, wrong.campaign.name);
        return;
      }
      const changed = rows.filter(({ campaign, input }) => weightOf(input.value) !== campaign.weight);
      if (!reset && changed.length === 0) {
        form.fail('No weight differs from what is in force.');
        return;
      }
      const weights = Object.fromEntries(changed.map(({ campaign, input }) => [campaign.name, Number(input.value)]));
      const done = await steer(reset ? { action: 'reset_weights', ...signed } : { action: 'weights', weights, ...signed });
      forgetDraft(KEY);
      form.close();
      answered(reset ? 'Weights are the configured ones again' : `${plural(changed.length, 'weight')} set`, done);
    },
  });

  const tell = () => {
    const values = rows.map(({ input }) => weightOf(input.value));
    const sum = values.reduce((/** @type {number} */ all, value) => all + (value ?? 0), 0);
    rows.forEach(({ fill, share, input, campaign, at }, k) => {
      const value = values[k];
      const part = value === null || sum === 0 ? null : value / sum;
      setText(share, percent(part, 1));
      setBar(fill, part);
      setAttr(input, 'aria-invalid', value === null ? 'true' : null);
      if (value !== null) setText(at.error, '');
      input.classList.toggle('changed', value !== campaign.weight);
    });
    setText(form.lead, reset ? 'Weights that operators set are forgotten, and the configured ones stand again.'
      : sum === 0 ? `With every weight 0 no campaign has a share: nothing but express ${say.messages} would be sent.`
      : 'Campaigns share the slots by these weights within 4 s. What one cannot use goes to the others at once. A weight of 0 takes a campaign’s share away.');
  };
  for (const { campaign, input, at } of rows) {
    form.add(campaign.name, at);
    input.addEventListener('input', () => {
      reset = false;
      tell();
    });
  }
  form.body.append(h('table', { class: 'plain weights' },
    h('caption', { class: 'hidden', text: 'Weights of the campaigns' }),
    h('thead', {}, h('tr', {}, ...['Campaign', 'Configured', 'Weight', 'Comes to'].map((text) => h('th', { scope: 'col', text })))),
    h('tbody', {}, ...rows.map(({ campaign, input, fill, share, at }) => h('tr', {},
      h('th', { scope: 'row', class: 'name', title: campaign.name, text: campaign.name }),
      h('td', { class: 'number', text: count(campaign.configured_weight) }),
      h('td', {}, input, at.error),
      h('td', { class: 'share' }, share, h('span', { class: 'meter', 'aria-hidden': 'true' }, fill)))))));
  form.body.append(h('button', { type: 'button', class: 'link', testid: 'reset-weights', text: 'Back to the configured weights', click: () => {
    for (const { campaign, input } of rows) input.value = String(campaign.configured_weight);
    reset = true;
    tell();
  } }));
  const sign = signature(form, KEY);
  tell();
  present(form, rows.find(({ campaign }) => campaign.name === first)?.input);
}
