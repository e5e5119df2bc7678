// What is drawn over the curve by hand: the forecast, now, its end, and marks of holds and pauses.

import { buckets, forecastEnd, valueOf } from './chart-data.js';
import { clock } from './format.js';
import { curves, foreseen, isStale, model, now } from './model.js';
import { isShown } from './view.js';

/** @typedef {{text: string, muted: string, accent: string, warn: string, bad: string, surface: string, font: string, ratio: number}} Ink */

const MARKED = new Set(['hold', 'pause', 'breaker', 'change', 'quota', 'level']);
/** More would be a fence. */
const MOST_MARKS = 60;

/** @typedef {import('./chart-data.js').Group} Group */

/** @param {any} u @param {Group[]} stack @param {Ink} ink */
export function drawOver(u, stack, ink) {
  /** @type {CanvasRenderingContext2D} */
  const ctx = u.ctx;
  const { left, top, width, height } = u.bbox;
  const r = ink.ratio;
  ctx.save();
  ctx.font = ink.font.replace('12px', `${11 * r}px`);
  ctx.textBaseline = 'middle';
  const at = now() / 1000;
  /** @param {number} t */
  const x = (t) => Math.round(u.valToPos(t, 'x', true));
  /** @param {number} t */
  const inside = (t) => x(t) >= left && x(t) <= left + width;
  let taken = -Infinity;

  /** @param {number} t @param {string} colour @param {number[]} dash */
  const line = (t, colour, dash) => {
    ctx.beginPath();
    ctx.strokeStyle = colour;
    ctx.lineWidth = r;
    ctx.setLineDash(dash.map((d) => d * r));
    ctx.moveTo(x(t), top);
    ctx.lineTo(x(t), top + height);
    ctx.stroke();
    ctx.setLineDash([]);
  };
  /** @param {number} t @param {string} text @param {string} colour */
  const label = (t, text, colour) => {
    const wide = ctx.measureText(text).width;
    const from = Math.max(left, Math.min(left + width - wide, x(t) - wide / 2));
    if (from < taken + 6 * r) return;
    taken = from + wide;
    ctx.fillStyle = colour;
    ctx.fillText(text, from, top - 9 * r);
  };

  const changes = model.long ? [...model.long.changes].reverse() : model.events;
  for (const change of changes.filter((entry) => MARKED.has(entry.kind) && isShown(entry.campaign)).slice(0, MOST_MARKS)) {
    const t = Date.parse(change.at) / 1000;
    if (!inside(t)) continue;
    const colour = change.tone === 'bad' ? ink.bad : change.tone === 'warn' ? ink.warn : ink.muted;
    line(t, colour, [1, 4]);
    glyph(ctx, x(t), top + height - 7 * r, r, change.tone, colour, ink.surface);
  }

  const list = buckets();
  const end = forecastEnd();
  if (list.length) {
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.save();
    ctx.clip();
    ctx.beginPath();
    ctx.strokeStyle = ink.accent;
    ctx.lineWidth = 2 * r;
    ctx.setLineDash([5 * r, 4 * r]);
    list.forEach((bucket, k) => {
      const y = Math.round(u.valToPos(bucket.value, 'y', true));
      const from = u.valToPos(bucket.from, 'x', true);
      if (k === 0) ctx.moveTo(from, y);
      else ctx.lineTo(from, y);
      ctx.lineTo(u.valToPos(bucket.to, 'x', true), y);
    });
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.restore();
  }
  names(u, stack, ink);
  if (inside(at)) {
    line(at, ink.muted, [3, 3]);
    label(at, isStale() ? 'last known' : 'now', ink.text);
  }
  if (end !== null && inside(end) && end > at && foreseen()?.ends_at) {
    line(end, ink.accent, [3, 3]);
    label(end, `all sent ${clock(end * 1000)}`, ink.accent);
  }
  ctx.restore();
}

/**
 * A campaign's name in its band, where there is room: told apart without its colour.
 * @param {any} u
 * @param {Group[]} stack
 * @param {Ink} ink
 */
function names(u, stack, ink) {
  const last = curves().t.length - 1;
  if (last < 0) return;
  const { ctx, bbox } = u;
  const end = Math.min(u.valToPos(curves().t[last], 'x', true), bbox.left + bbox.width) - 8 * ink.ratio;
  const room = Math.min(220 * ink.ratio, end - bbox.left - 8 * ink.ratio);
  ctx.textAlign = 'right';
  let below = 0;
  for (const group of stack) {
    const value = valueOf(group, last) ?? 0;
    const low = u.valToPos(below, 'y', true);
    const high = u.valToPos(below + value, 'y', true);
    below += value;
    if (low - high < 16 * ink.ratio || ctx.measureText(group.name).width > room) continue;
    ctx.strokeStyle = ink.surface;
    ctx.lineWidth = 3 * ink.ratio;
    ctx.lineJoin = 'round';
    ctx.strokeText(group.name, end, (low + high) / 2);
    ctx.fillStyle = ink.text;
    ctx.fillText(group.name, end, (low + high) / 2);
  }
  ctx.textAlign = 'left';
}

/**
 * A shape a tone, on the time axis.
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} r
 * @param {string} tone
 * @param {string} colour
 * @param {string} surface
 */
function glyph(ctx, x, y, r, tone, colour, surface) {
  const s = 5 * r;
  ctx.beginPath();
  if (tone === 'bad') ctx.rect(x - s, y - s, 2 * s, 2 * s);
  else if (tone === 'warn') {
    ctx.moveTo(x, y - s);
    ctx.lineTo(x + s, y + s);
    ctx.lineTo(x - s, y + s);
    ctx.closePath();
  } else ctx.arc(x, y, s * 0.85, 0, 2 * Math.PI);
  ctx.fillStyle = colour;
  ctx.fill();
  ctx.strokeStyle = surface;
  ctx.lineWidth = 1.5 * r;
  ctx.stroke();
}
