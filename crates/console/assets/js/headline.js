// One sentence that says what is going on now, and what is worth saying beside it.

import { about, clock, clockSeconds, full, limit, listed, percent, plural, rate, sentence, span, words } from './format.js';
import { capital, closedBy, deadLetters, exceeded, foreseen, held, isStale, model, now, waiting } from './model.js';
import { say } from './words.js';

/** @typedef {import('./types.js').Tone} Tone */
/** @typedef {import('./types.js').Hold} Hold */
/** @typedef {{kind: string, tone: Tone, text: string, next?: string, title?: string}} Headline */

/** @param {Hold} hold */
function heldText(hold) {
  const until = hold.until ? `, until about ${clock(hold.until)}` : '';
  const what = hold.reason === 'daily_budget' ? 'Campaigns are stopped' : 'Stopped';
  return `${what}: ${hold.what}${until}`;
}

/** When all that may be sent is sent, in seconds; none where nobody knows. */
export function left() {
  const ends = foreseen()?.ends_at;
  if (ends) return (Date.parse(ends) - now()) / 1000;
  const waiting = model.figures?.rows.filter((row) => row.waiting > 0) ?? [];
  if (waiting.length === 0 || waiting.some((row) => row.eta_s === null)) return null;
  return Math.max(...waiting.map((row) => row.eta_s ?? 0));
}

/** @returns {Headline} */
export function headline() {
  const { figures } = model;
  if (!figures) return { kind: 'none', tone: 'info', text: 'Looking at the stack' };
  if (!isStale()) return standing(figures);
  // What stood then is not said as if it stood now.
  return { kind: 'blind', tone: 'warn', text: `No figures since ${clockSeconds(figures.at)}.`, next: `Last known: ${uncapital(standing(figures).text)}`, title: full(figures.at) };
}

/** @param {import('./types.js').Figures} figures @returns {Headline} */
function standing(figures) {
  const { status } = figures;
  const all = status.holds.filter((hold) => hold.campaign === null);
  const first = all.find((hold) => hold.reason === 'paused') ?? all.find((hold) => hold.reason !== 'daily_budget');
  if (first) {
    const tone = first.reason === 'paused' ? 'warn' : 'bad';
    return { kind: `held ${first.reason}`, tone, text: heldText(first), title: full(first.since) };
  }
  if (status.quota.sending_enabled === false) {
    return { kind: 'disabled', tone: 'bad', text: `Stopped: ${say.service} lets this account send nothing` };
  }
  if (status.breaker.state === 'blocking') {
    const until = status.breaker.until ? (Date.parse(status.breaker.until) - now()) / 1000 : null;
    const next = until === null ? '' : until <= 0 ? ', now' : `, in ${span(until)}`;
    return { kind: 'breaker blocking', tone: 'bad', text: `Nothing is sent: ${say.service} fails.`, next: `One ${say.message} will try it again${next}.` };
  }
  if (status.breaker.state === 'probing') {
    return { kind: 'breaker probing', tone: 'warn', text: `${say.service} failed: one ${say.message} is on its way, to see whether it works again` };
  }
  const quota = exceeded();
  if (quota !== null) return { kind: 'above', tone: 'bad', text: `Sending ${rate(figures.rate)} a second, above the quota of ${limit(quota)}.`, next: `${say.service} refuses what is above it.` };
  const all_ = waiting().all;
  const { state, last_window: last } = status.serving;
  if (state === 'never') return { kind: 'never', tone: 'info', text: 'Nothing was ever sent here: no window was served yet' };
  if (state === 'stopped') {
    const since = last ? ` since ${clock(last)}` : '';
    return { kind: 'stopped', tone: 'bad', text: `Nothing is sent: no poller runs${since}.`, next: 'Is the scheduler’s rule enabled? `tidegate doctor` looks.', title: full(last) };
  }
  if (all.length > 0 && !(figures.rate && figures.rate > 0)) {
    return { kind: 'budget', tone: 'warn', text: heldText(all[0]) };
  }
  if (all.length > 0) return { kind: 'budget', tone: 'warn', text: `Sending ${rate(figures.rate)} a second, express ${say.messages} alone.`, next: sentence(heldText(all[0])) };
  if (figures.rate !== null && figures.rate > 0) return sending(figures.rate, all_);
  if (all_ === 0) return { kind: 'idle', tone: 'info', text: 'Idle: nothing waits' };
  if (figures.rate === null) return { kind: 'first', tone: 'info', text: 'The first figures come in some seconds' };
  const wait = plural(all_, `${say.message} waits`, `${say.message}s wait`);
  const stopped = (/** @type {string} */ name, /** @type {number} */ many) => many === 0 || held(name) || closedBy(name) !== null;
  const blocked = stopped('express', status.waiting.express) && figures.rows.every((row) => stopped(row.name, row.waiting) || status.campaigns.some((c) => c.name === row.name && c.weight === 0));
  if (blocked && all_ === status.waiting.express + status.waiting.campaigns) return { kind: 'blocked', tone: 'warn', text: `Nothing is sent: what waits (${plural(all_, say.message)}) is held or closed` };
  if (state === 'idle') return { kind: 'asleep', tone: 'info', text: `Idle: ${wait} for the next look at the queues` };
  return { kind: 'silent', tone: 'warn', text: `Nothing is sent now, though ${wait}` };
}

/** @param {number} now_ @param {number} all @returns {Headline} */
function sending(now_, all) {
  const quota = model.figures?.status.quota;
  const may = quota?.slots_per_second ?? quota?.in_force ?? null;
  const use = may ? `, ${percent(Math.min(1, now_ / may))} of what may be sent` : '';
  const text = `Sending ${rate(now_)} a second${use}.`;
  if (all === 0) return { kind: 'sending', tone: 'good', text, next: 'Nothing waits.' };
  const rest = left();
  const some = [{ name: 'express', waiting: model.figures?.status.waiting.express ?? 0 }, ...model.figures?.rows ?? []].some((row) => row.waiting > 0 && held(row.name));
  const what = some ? 'All that is not held' : 'Everything';
  if (rest === null) return { kind: 'sending', tone: 'good', text };
  return { kind: 'sending', tone: 'good', text, next: `${what} is sent in ${rest < 10 ? '' : 'about '}${about(rest)}.` };
}

/** @param {string} text */
function uncapital(text) {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** What stands under the headline. */
export function subline() {
  const { figures } = model;
  if (!figures) return '';
  const parts = [];
  const { all, by } = waiting();
  if (all > 0) parts.push(`${plural(all, `${say.message} waits`, `${say.message}s wait`)}: ${by}`);
  const names = ['express', ...figures.status.campaigns.map((campaign) => campaign.name)];
  const stopped = names.filter(held);
  if (stopped.length > 3) parts.push(`${stopped.length} campaigns are held`);
  else if (stopped.length > 0) parts.push(`held: ${listed(stopped)}`);
  const closed = names.filter((name) => closedBy(name));
  if (closed.length > 0) parts.push(`closed by limits: ${closed.length > 3 ? `${closed.length} campaigns` : listed(closed)}`);
  const forecast = foreseen();
  if (forecast?.ends_at) {
    const range = forecast.earliest && forecast.latest && clock(forecast.earliest) !== clock(forecast.latest)
      ? ` (between ${clock(forecast.earliest)} and ${clock(forecast.latest)})` : '';
    const by = forecast.limited_by ? `, limited by ${words(forecast.limited_by)}` : '';
    parts.push(`forecast: all sent at ${clock(forecast.ends_at)}${range}${by}`);
  } else if (forecast) parts.push('forecast: some of it stays as things stand');
  else if (model.forecast?.state === 'failed') parts.push('no forecast: it failed');
  const dead = deadLetters() ?? 0;
  if (dead > 0) parts.push(plural(dead, 'dead letter'));
  if (parts.length === 0) return '';
  return sentence(isStale() ? `Then: ${parts.join('; ')}` : capital(parts.join('; ')));
}
