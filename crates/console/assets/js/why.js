// "Why is this message waiting?": a question, a sentence, and what it rests on.

import { ApiError, post } from './api.js';
import { byId, h, icon, keyed, setAttr, setCodeText, setText } from './dom.js';
import { field } from './forms.js';
import { clock } from './format.js';
import { model } from './model.js';
import { renderView } from './view.js';

/** @typedef {import('./types.js').Why} Why */

/** @type {{[verdict: string]: [tone: string, word: string]}} */
const VERDICTS = {
  sent: ['good', 'Sent'], sending: ['info', 'Being sent'], dead: ['bad', 'Dead-lettered'], unknown: ['warn', 'Outcome not known'],
  no_campaign: ['bad', 'No such campaign'], nowhere: ['warn', 'On no queue'], unrecorded: ['warn', 'Not recorded'],
  which_campaign: ['info', 'Which campaign'],
};

const id = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', testid: 'why-id' });
const campaign = h('select', { testid: 'why-campaign' }, h('option', { value: '', text: 'Any' }));
const ask = h('button', { type: 'submit', class: 'primary', text: 'Ask', testid: 'why-ask' });
const idField = field('Id', id, 'The id in the body, an SQS message id, or campaign/id/…');
const campaignField = field('Campaign', campaign);
let busy = false;

export function startWhy() {
  const form = byId('why');
  form.append(idField.root, campaignField.root, ask);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    question();
  });
}

/** @param {string} [name] */
export function askWhy(name) {
  if (name !== undefined) campaign.value = name;
  if (byId('why').offsetParent === null) {
    location.hash = '';
    renderView();
  }
  byId('why').scrollIntoView({ block: 'nearest' });
  id.focus();
  id.select();
}

/** @param {string} text @param {string | null} [at] */
function fail(text, at) {
  const where = at === 'campaign' ? campaignField : idField;
  setText(where.error, text);
  setAttr(where.input, 'aria-invalid', 'true');
  where.input.focus();
}

async function question() {
  if (busy) return;
  for (const { input, error } of [idField, campaignField]) {
    setText(error, '');
    setAttr(input, 'aria-invalid', null);
  }
  const asked = id.value.trim();
  if (!asked) {
    fail('The id is missing.');
    return;
  }
  busy = true;
  setText(ask, 'Looking');
  setAttr(ask, 'aria-busy', 'true');
  try {
    answer(await post('/api/why', { id: asked, campaign: campaign.value || null }));
  } catch (error) {
    fail(error instanceof ApiError ? error.message : 'The page failed at this.', error instanceof ApiError ? error.field : null);
    if (!(error instanceof ApiError)) console.error(error);
  } finally {
    busy = false;
    setText(ask, 'Ask');
    setAttr(ask, 'aria-busy', null);
  }
}

/** @param {string} tag @param {string} text @param {string} [klass] */
function coded(tag, text, klass) {
  const element = h(/** @type {'p'} */ (tag), { class: klass });
  setCodeText(element, text);
  return element;
}

/** @param {string} title @param {{of: string, what: string}[]} list */
function facts(title, list) {
  if (list.length === 0) return null;
  return h('details', { class: 'more' }, h('summary', { text: title }),
    h('dl', {}, ...list.flatMap(({ of, what }) => [h('dt', { text: of }), coded('dd', what)])));
}

/** @param {Why} why */
function answer(why) {
  const [tone, word] = VERDICTS[why.verdict] ?? ['info', why.verdict];
  const guesses = why.verdict === 'nowhere' || why.verdict === 'unrecorded';
  const lets = why.lets_go ? coded('p', `${guesses ? 'Next' : 'Lets go'}: ${why.lets_go}`, 'why-lets') : null;
  const first = why.if_it_waits;
  const others = (why.limits ?? []).filter(({ what }) => what !== first?.what);
  const waits = first ? [first, ...others] : [];
  const limits = waits.map(({ verdict, what, lets_go: go }) => h('li', { 'data-value': verdict }, coded('p', what), go ? coded('p', `Lets go: ${go}`, 'muted') : null));
  const unknown = why.not_known ?? [];
  byId('why-answer').replaceChildren(h('div', { class: 'answer', 'data-tone': tone },
    h('p', { class: 'answer-word', testid: 'why-verdict', 'data-value': why.verdict }, icon(tone), h('span', { text: word })),
    coded('p', why.summary, 'why-summary'), lets ?? '',
    limits.length ? h('div', { class: 'limits', testid: 'why-waits' }, h('h3', { text: 'If it waits' }), h('ul', {}, ...limits)) : null,
    facts('What was read', why.facts ?? []), facts('Ruled out', why.ruled_out ?? []),
    unknown.length ? h('details', { class: 'more' }, h('summary', { text: 'Not known' }), h('ul', {}, ...unknown.map((text) => coded('li', text)))) : null,
    h('p', { class: 'muted', text: `${why.id}${why.campaign ? ` of ${why.campaign}` : ''}, asked at ${clock(Date.now())}` })));
}

export function renderWhy() {
  const names = ['', ...(model.figures?.status.campaigns ?? []).map((one) => one.name)];
  // An open list of choices stays as it is.
  if (document.activeElement === campaign && campaign.options.length > 1) return;
  keyed(campaign, names, (name) => `of ${name}`, (name) => h('option', { value: name, text: name || 'Any' }));
  for (const option of [...campaign.options]) if (option.dataset.key === undefined) option.remove();
}
