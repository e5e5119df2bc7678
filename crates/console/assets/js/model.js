// What the page knows, and one frame at most for all that changed.

/**
 * @typedef {import('./types.js').Figures} Figures
 * @typedef {import('./types.js').Entry} Entry
 * @typedef {import('./types.js').Change} Change
 */

import { count, words } from './format.js';

const KEPT = 200;
const SERIES_S = 1800;
const STEP_S = 2;
/** From this age on, figures are what was known, and nothing counts on from them. */
const STALE_S = 5;

export const model = {
  /** @type {import('./types.js').Session | null} */
  session: null,
  /** @type {Figures | null} */
  figures: null,
  /** @type {import('./types.js').Series} */
  series: { t: [], rate: [], quota: [], campaigns: {} },
  /** The span that the chart shows, if it is longer than the page's own. @type {import('./types.js').History | null} */
  long: null,
  /** @type {import('./types.js').Forecast | null} */
  forecast: null,
  /** @type {import('./types.js').Dead | null} */
  dead: null,
  /** @type {import('./types.js').Replay | null} */
  replay: null,
  /** @type {Entry[]} newest first */
  events: [],
  /** @type {import('./types.js').Connection} */
  connection: 'connecting',
  /** The browser's clock less the server's, in milliseconds. */
  skew: 0,
};

/** The curves that the chart shows. */
export function curves() {
  return model.long?.series ?? model.series;
}

/** Whether this page's token may change anything. */
export function mayAct() {
  return model.session?.role !== 'look';
}

/** @type {(() => void)[]} */
const renderers = [];
let framed = false;

/** @param {() => void} render */
export function onFrame(render) {
  renderers.push(render);
}

export function touch() {
  if (framed) return;
  framed = true;
  requestAnimationFrame(() => {
    framed = false;
    for (const render of renderers) {
      try {
        render();
      } catch (error) {
        // One broken panel leaves the others standing.
        console.error(error);
      }
    }
  });
}

/** The server's time, in milliseconds. */
export function wall() {
  return Date.now() - model.skew;
}

/** The time that the page tells of, in milliseconds: the server's, or that of stale figures. */
export function now() {
  return model.figures && isStale() ? Date.parse(model.figures.at) : wall();
}

/** How old the figures are, in seconds. */
export function age() {
  return model.figures ? Math.max(0, (wall() - Date.parse(model.figures.at)) / 1000) : null;
}

export function isStale() {
  const seconds = age();
  return seconds !== null && seconds > STALE_S;
}

/**
 * SES's quota, if more is sent: a hundredth and a recipient in ten seconds above it, which no mail of several
 * recipients explains. None otherwise.
 */
export function exceeded() {
  const { figures } = model;
  const quota = figures?.status.quota.account_per_second ?? figures?.status.quota.in_force ?? null;
  return quota !== null && (figures?.rate ?? 0) > quota * 1.01 + 0.1 ? quota : null;
}

/** What waits, by where it does: in words that stand behind a number. @type {{[kind: string]: string}} */
const WAITS = { express: 'express', campaigns: 'of campaigns', merge: 'on the merge queue', limits: 'on limits’ queues', rows: 'not enqueued yet' };

/** Everything that waits. */
export function waiting() {
  const parts = Object.entries(model.figures?.status.waiting ?? {}).filter(([, many]) => many > 0);
  return { all: parts.reduce((sum, [, many]) => sum + many, 0), by: parts.map(([kind, many]) => `${count(many)} ${WAITS[kind] ?? words(kind)}`).join(', ') };
}

/** Whether holds of its own stop a campaign, or express. @param {string} name */
export function held(name) {
  return model.figures?.status.holds.some((hold) => hold.campaign === name) ?? false;
}

/** The limit of a campaign, while it lets nothing through. @param {string} name */
export function closedBy(name) {
  const of = (/** @type {string} */ one) => model.figures?.status.limits?.find(({ key }) => key === `campaign:${one}`);
  const limit = of(name) ?? of('*');
  return limit?.closed ? limit : null;
}

/** The forecast, while there is one whose end is not over. */
export function foreseen() {
  const { forecast } = model;
  return forecast?.state === 'ready' && !(forecast.ends_at && Date.parse(forecast.ends_at) <= now()) ? forecast : null;
}

/** How many dead letters there are: whoever reads them hides them for a moment, and they are there all the same. */
export function deadLetters() {
  const depth = model.figures?.status.queues.dead_letters;
  return depth ? (depth.visible ?? 0) + (depth.in_flight ?? 0) + (depth.delayed ?? 0) : null;
}

/** @param {Figures} figures */
export function takeFigures(figures) {
  model.figures = figures;
  if (!figures.failed) model.skew = Date.now() - Date.parse(figures.at);
  touch();
}

/** @param {Figures} figures */
export function append(figures) {
  takeFigures(figures);
  const { series } = model;
  const t = Date.parse(figures.at) / 1000;
  const last = series.t.at(-1);
  if (figures.failed || (last !== undefined && t - last < STEP_S - 0.2)) return;
  series.t.push(t);
  series.rate.push(figures.rate);
  series.quota.push(figures.status.quota.in_force);
  const express = figures.status.queues.express ? [{ name: 'express', rate: figures.express?.per_second ?? 0 }] : [];
  for (const row of [...figures.rows, ...express]) {
    const values = (series.campaigns[row.name] ??= new Array(series.t.length - 1).fill(null));
    values.push(row.rate);
  }
  for (const values of Object.values(series.campaigns)) {
    while (values.length < series.t.length) values.push(null);
  }
  const from = series.t.findIndex((at) => at >= t - SERIES_S);
  if (from > 0) {
    for (const values of [series.t, series.rate, series.quota, ...Object.values(series.campaigns)]) values.splice(0, from);
  }
}

/** @type {Set<string>} */
const seen = new Set();

/**
 * @param {Change[]} changes
 */
export function takeChanges(changes) {
  let fresh = false;
  for (const change of changes) {
    // A restarted console counts anew: the time tells the two apart.
    const key = `${change.seq} ${change.at}`;
    if (seen.has(key)) continue;
    seen.add(key);
    model.events.push({ ...change, key });
    fresh = true;
  }
  if (fresh) settle();
}

/** @param {{missed: number | null, why: string | null}} gap */
export function takeGap(gap) {
  const missed = gap.missed === null || gap.missed === undefined ? 'Some changes' : gap.missed === 1 ? '1 change' : `${gap.missed} changes`;
  const at = new Date(wall()).toISOString();
  model.events.push({
    key: `gap ${at}`, at, seq: Number.MAX_SAFE_INTEGER, kind: 'gap', campaign: null,
    title: `${missed} may be missing here`, detail: gap.why, tone: 'warn',
  });
  settle();
}

function settle() {
  model.events.sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.seq - a.seq);
  model.events.length = Math.min(model.events.length, KEPT);
  if (seen.size > 4 * KEPT) {
    const keep = [...seen].slice(-2 * KEPT);
    seen.clear();
    for (const key of keep) seen.add(key);
  }
  touch();
}

/** @param {import('./types.js').State} state */
export function takeState(state) {
  if (state.series) model.series = state.series;
  model.forecast = state.forecast ?? null;
  model.dead = state.dead ?? null;
  model.replay = state.replay ?? null;
  if (state.figures) takeFigures(state.figures);
  takeChanges(state.recent ?? []);
  touch();
}

/** A text as a sentence begins: with a capital, unless a campaign's name comes first. @param {string} text */
export function capital(text) {
  const first = text.split(/[\s:,;]/, 1)[0];
  const isName = model.figures?.status.campaigns.some(({ name }) => name === first) ?? false;
  return isName ? text : text.charAt(0).toUpperCase() + text.slice(1);
}
