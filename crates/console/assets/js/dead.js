// Dead letters: by reason, the newest, read anew on demand, and the way to the reviewed replay.

import { ApiError, post } from './api.js';
import { byId, h, icon, keyed, labelled, setBar, setText, setValue, show } from './dom.js';
import { clock, clockSeconds, count, full, plural, sentence, span } from './format.js';
import { letterAddress } from './letter.js';
import { capital, deadLetters, model, touch } from './model.js';
import { openReplay, stopReplay } from './replay.js';
import { toast } from './toast.js';
import { campaignShown, isShown } from './view.js';

/** @type {{[doubt: string]: string}} */
const DOUBTS = { none: '', perhaps: 'perhaps sent', unknown: 'not known whether it was sent' };

/** @type {HTMLElement} */ let read;
/** @type {HTMLElement} */ let groups;
/** @type {HTMLElement} */ let letters;
/** @type {HTMLElement} */ let tables;
/** @type {HTMLElement} */ let running;
let reading = false;

export function startDead() {
  read = h('p', { class: 'none' });
  groups = h('tbody');
  letters = h('tbody');
  running = h('div', { class: 'running', hidden: true },
    h('p', { class: 'running-text' }),
    h('span', { class: 'meter', role: 'progressbar', 'aria-label': 'Replay', 'aria-valuemin': 0, 'aria-valuemax': 100 }, h('span', { class: 'meter-fill' })),
    h('button', { type: 'button', text: 'Stop', click: stopReplay, 'data-acts': true, testid: 'replay-stop' }));
  tables = h('div', {},
    h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'Dead letters by reason' }, h('table', { class: 'plain cards' },
      h('caption', { class: 'hidden', text: 'Dead letters by reason' }),
      h('thead', {}, h('tr', {}, ...['Reason', 'Letters', 'Perhaps sent', 'Newest', 'Said of the newest'].map((text) => h('th', { scope: 'col', text })))), groups)),
    h('details', { class: 'more' }, h('summary', { text: 'Newest letters' }),
      h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'Newest dead letters' }, h('table', { class: 'plain cards' },
        h('caption', { class: 'hidden', text: 'The newest dead letters, their recipients masked' }),
        h('thead', {}, h('tr', {}, ...['When', 'Campaign', 'Id', 'To', 'Reason', 'Attempts', 'Doubt'].map((text) => h('th', { scope: 'col', text })))), letters))));
  byId('dead-body').append(running, read, tables);
  byId('dead-read').addEventListener('click', readNow);
  byId('dead-replay').prepend(icon('replay'));
  byId('dead-replay').addEventListener('click', () => openReplay({ campaign: campaignShown() ?? undefined }));
}

async function readNow() {
  if (reading) return;
  reading = true;
  touch();
  try {
    model.dead = await post('/api/dead/read', {});
    toast('Dead letters read', model.dead ? `${plural(model.dead.read, 'letter')} read.` : '');
  } catch (error) {
    toast('Dead letters were not read', error instanceof ApiError ? error.message : 'The page failed.', 'bad');
  } finally {
    reading = false;
    touch();
  }
}

/** @param {import('./types.js').Letter} letter */
function to(letter) {
  const list = letter.to ?? [];
  return list.length === 0 ? '–' : list.length === 1 ? list[0] : `${list[0]} +${count(list.length - 1)}`;
}

export function renderDead() {
  const { dead, replay } = model;
  const there = deadLetters();
  setText(byId('dead-read'), reading ? 'Reading' : 'Read now');
  byId('dead-read').setAttribute('aria-busy', String(reading));
  const own = campaignShown();
  const shown = (own === null ? dead?.groups : dead?.campaigns[own]) ?? [];
  setText(byId('dead-total'), own !== null ? count(shown.reduce((sum, group) => sum + group.letters, 0)) : there ? count(there) : '');
  const nothing = there === 0 && (!dead || dead.read === 0);
  /** @type {HTMLButtonElement} */ (byId('dead-replay')).disabled = nothing && !replay?.running;
  show(tables, shown.length > 0);
  let text = '';
  if (nothing) text = 'No dead letters.';
  else if (!dead) text = there ? `${plural(there, 'letter is', 'letters are')} on the dead-letter queue. Read now shows why.` : 'Not read yet.';
  else {
    const rest = dead.unread ? `; ${plural(dead.unread, 'more')} could not be seen, since somebody else reads them` : dead.whole ? '' : '; there are more';
    text = `${plural(dead.read, 'letter')} read at ${clockSeconds(dead.read_at)}${rest}. ${own !== null && shown.length === 0 ? `None is of ${own}.` : 'Reading takes nothing off the queue.'}`;
  }
  setText(read, text);

  keyed(groups, shown, (group) => `${group.key} ${group.said ?? ''}`, (group) => h('tr', { testid: 'dead-group' },
    h('th', { scope: 'row', class: 'code', text: group.key }), h('td', { class: 'number' }), h('td', { class: 'number' }), h('td', { class: 'number' }), h('td', { class: 'said' })),
  (row, group) => {
    const [, number, perhaps, newest, said] = row.children;
    setText(number, count(group.letters));
    setValue(number, group.letters);
    setText(perhaps, group.perhaps_sent ? count(group.perhaps_sent) : '–');
    setText(newest, clock(group.newest));
    /** @type {HTMLElement} */ (newest).title = full(group.newest);
    setText(said, group.said ?? '–');
  });
  keyed(letters, (dead?.letters ?? []).filter((letter) => isShown(letter.campaign)), (letter) => `${letter.campaign} ${letter.id} ${letter.since}`, (letter) => h('tr', { testid: 'dead-letter' },
    h('th', { scope: 'row', text: clockSeconds(letter.since), title: `${full(letter.since)}${letter.age_s === null ? '' : `, ${span(letter.age_s)} ago when read`}` }),
    h('td', { text: letter.campaign ?? '–' }), h('td', { class: 'code' }, h('a', { href: letterAddress(letter.message_id), testid: 'letter-link', text: letter.id ?? '–' })), h('td', { text: to(letter) }),
    h('td', { class: 'code', text: letter.foreign ? 'no dead letter of Tidegate’s' : `${letter.code ?? '–'}${letter.http_status ? ` (${letter.http_status})` : ''}` }),
    h('td', { class: 'number', text: count(letter.attempts) }), h('td', { text: DOUBTS[letter.doubt] || '–' })));

  [groups, letters].forEach(labelled);

  show(running, Boolean(replay && (replay.running || replay.error || replay.said)));
  if (replay) {
    const share = replay.of > 0 ? replay.sent / replay.of : 0;
    setText(/** @type {Element} */ (running.querySelector('.running-text')), replayText(replay));
    const bar = /** @type {HTMLElement} */ (running.querySelector('.meter'));
    bar.setAttribute('aria-valuenow', String(Math.round(share * 100)));
    show(bar, replay.running);
    setBar(/** @type {HTMLElement} */ (running.querySelector('.meter-fill')), share);
    show(/** @type {HTMLElement} */ (running.querySelector('button')), replay.running);
  }
}

/** @param {import('./types.js').Replay} replay */
export function replayText(replay) {
  if (replay.running) return `Replay: ${count(replay.sent)} of ${count(replay.of)} sent to their campaigns again${replay.waits ? '; it waits, since a campaign’s queue is deep' : ''}.`;
  if (replay.error) return `The replay broke off: ${sentence(replay.error)} Review again to go on.`;
  return replay.said ? `Replay ended: ${sentence(capital(replay.said))}` : '';
}
