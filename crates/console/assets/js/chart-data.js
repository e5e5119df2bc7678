// The chart's figures: campaigns stacked, the smallest of many taken together, the forecast by time.

import { curves, model } from './model.js';
import { campaignShown } from './view.js';

const SHOWN = 6;
export const OTHERS = 'others';

/** @typedef {{name: string, of: string[]}} Group */

/** @returns {Group[]} from the bottom of the stack up */
export function groups() {
  const { campaigns } = curves();
  const order = model.figures?.status.campaigns.map((campaign) => campaign.name) ?? [];
  const shown = campaignShown();
  if (shown !== null) return [{ name: shown, of: [shown] }];
  const names = [...order.filter((name) => campaigns[name]), ...Object.keys(campaigns).filter((name) => !order.includes(name))];
  if (names.length <= SHOWN) return names.map((name) => ({ name, of: [name] }));
  // By weight, which seldom changes: by what was sent the colours would jump.
  const weight = new Map(model.figures?.status.campaigns.map((campaign) => [campaign.name, campaign.weight]) ?? []).set('express', Infinity);
  const ranked = [...names].sort((a, b) => (weight.get(b) ?? 0) - (weight.get(a) ?? 0));
  const own = ranked.slice(0, SHOWN - 1);
  const rest = ranked.slice(SHOWN - 1);
  return [...own.map((name) => ({ name, of: [name] })), { name: `${rest.length} ${OTHERS}`, of: rest }];
}

/**
 * @param {Group} group
 * @param {number} at
 * @returns {number | null}
 */
export function valueOf(group, at) {
  /** @type {number | null} */
  let sum = null;
  for (const name of group.of) {
    const value = curves().campaigns[name]?.[at];
    if (value !== null && value !== undefined) sum = (sum ?? 0) + value;
  }
  return sum;
}

/**
 * @param {Group[]} stack
 * @returns {(number | null)[][]} times, the stack's edges from the top down, all sent, the quota
 */
export function columns(stack) {
  const { t, rate, quota } = curves();
  /** @type {(number | null)[][]} */
  const edges = [];
  let below = new Array(t.length).fill(0);
  for (const group of stack) {
    const edge = t.map((_, at) => {
      const value = valueOf(group, at);
      return value === null && rate[at] === null ? null : below[at] + (value ?? 0);
    });
    edges.push(edge);
    below = edge.map((value, at) => value ?? below[at]);
  }
  return [t, ...edges.reverse(), rate, quota];
}

/** @returns {{from: number, to: number, value: number}[]} the forecast of all that is shown, bucket by bucket */
export function buckets() {
  const { forecast } = model;
  if (!forecast || forecast.state !== 'ready' || !forecast.per_second || !forecast.from_t || !forecast.bucket_s) return [];
  const { from_t: from, bucket_s: length } = forecast;
  const own = campaignShown();
  const lists = own === null ? Object.values(forecast.per_second) : [forecast.per_second[own] ?? []];
  const many = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: many }, (_, k) => ({
    from: from + k * length,
    to: from + (k + 1) * length,
    value: lists.reduce((sum, list) => sum + (list[k] ?? 0), 0),
  }));
}

/** @param {number} t */
export function forecastAt(t) {
  return buckets().find((bucket) => bucket.from <= t && t < bucket.to)?.value ?? null;
}

/** The end of the forecast, in epoch seconds. */
export function forecastEnd() {
  const { forecast } = model;
  if (forecast?.state !== 'ready') return null;
  const own = campaignShown();
  const ends = own === null ? null : forecast.campaigns?.find(({ name }) => name === own)?.ends_at;
  if (own !== null) return ends ? Date.parse(ends) / 1000 : null;
  if (forecast.ends_at) return Date.parse(forecast.ends_at) / 1000;
  return buckets().at(-1)?.to ?? null;
}
