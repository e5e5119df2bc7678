// The runs of lists that are under way or unfinished, and those of the last day: a bar each.

import { byId, h, keyed, setAttr, setBar, setText, show } from './dom.js';
import { clock, count } from './format.js';
import { foreseen, isStale, model } from './model.js';

/** @typedef {import('./types.js').Run} Run */

/** @param {Run} run */
function words(run) {
  const taken = [['failed', run.failed], ['cancelled', run.cancelled], ['waiting', run.waiting]].filter(([, many]) => Number(many) > 0);
  const end = foreseen()?.campaigns?.find((one) => one.name === run.campaign)?.ends_at;
  const left = run.rows - run.enqueued;
  return [
    `${count(run.sent)} of ${count(run.rows)} sent`, ...taken.map(([kind, many]) => `${count(Number(many))} ${kind}`),
    ...left > 0 ? [`${count(left)} ${run.rest ? `left to run ${run.rest.join(', ')}` : 'not enqueued yet'}`] : [],
    ...end && (run.to_come > 0 || run.waiting > 0) ? [`ends at ${clock(end)}`] : [],
  ].join(', ');
}

export function renderRuns() {
  const runs = model.figures?.status.runs ?? [];
  show(byId('runs-panel'), runs.length > 0);
  keyed(byId('runs'), runs, (run) => `${run.campaign}/${run.name}`, (run) => h('li', { testid: `run-${run.name}` },
    h('span', { class: 'run-name', text: run.name }), ' ', h('span', { class: 'muted run-stage' }),
    h('span', { class: 'meter', role: 'progressbar', 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-label': `Sent of run ${run.name}` }, h('span', { class: 'meter-fill' })),
    h('span', { class: 'run-words' })), (item, run) => {
    const part = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (item.querySelector(selector));
    const share = run.rows > 0 ? run.sent / run.rows : 1;
    setText(part('.run-stage'), `${isStale() ? 'was ' : ''}${run.stage}, for ${run.campaign}, on ${run.host} since ${clock(run.began)}`);
    setAttr(part('.meter'), 'aria-valuenow', String(Math.floor(share * 1000) / 10));
    setBar(part('.meter-fill'), share);
    setText(part('.run-words'), words(run));
  });
}
