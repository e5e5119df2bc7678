// The live curve, by uPlot: campaigns stacked, all in bold, the quota, the forecast dashed.

import { ApiError, read } from './api.js';
import { groups, columns, buckets, forecastEnd } from './chart-data.js';
import { drawOver } from './chart-marks.js';
import { renderLegend, renderTable, summary } from './chart-text.js';
import { byId, h, setAttr, setText, show } from './dom.js';
import { clock, limit } from './format.js';
import { curves, model, now, touch } from './model.js';
import { toast } from './toast.js';

/** @typedef {import('./chart-data.js').Group} Group */

const UPlot = /** @type {any} */ (globalThis).uPlot;
const RANGES = [['5', '5 min'], ['30', '30 min'], ['6h', '6 h'], ['2d', '2 d'], ['end', 'To the end']];
/** Seconds of the past that a range shows. @type {{[range: string]: number}} */
const BACK = { 5: 300, 30: 1800, '6h': 21_600, '2d': 172_800 };
/** The console adds a point to its long curves every 30 s. */
const ANEW_MS = 30_000;
const HEIGHT = 300;
/** Dashes beside the colours: a line is told from the next without either. */
const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [4, 2], [1, 2]];

/** @type {any} */
let plot = null;
let made = '';
let range = '5';
let asTable = false;
/** @type {number | null} */
let pointed = null;

/** @param {string} name @returns {string} the colour that a custom property comes to in the theme */
function colour(name) {
  const probe = byId('chart');
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.style.color = '';
  return found;
}

/** @param {string} rgb @param {number} alpha */
function faint(rgb, alpha) {
  const numbers = rgb.match(/[\d.]+/g);
  return numbers && rgb.startsWith('rgb') ? `rgba(${numbers.slice(0, 3).join(',')},${alpha})` : rgb;
}

/** @param {number} seconds */
function axisTime(seconds) {
  return clock(seconds * 1000);
}

/** @returns {[number, number]} */
function span() {
  const at = now() / 1000;
  const end = forecastEnd();
  if (range === 'end' && end !== null && end > at) return [at - Math.min(1800, Math.max(120, (end - at) * 0.25)), end + Math.max(15, (end - at) * 0.04)];
  const back = BACK[range] ?? 300;
  return [at - back, at + (buckets().length ? back / 5 : back / 60)];
}

// Dashes on a curve of hundreds of points are noise.
function sparse() {
  return range === '5';
}

/** @param {Group[]} stack */
function build(stack) {
  plot?.destroy();
  const text = colour('text');
  const muted = colour('muted');
  const grid = colour('grid');
  const colours = stack.map((_, at) => colour(`series-${at + 1}`));
  const top = stack.length;
  const edges = [...stack.keys()].reverse();
  const ratio = devicePixelRatio || 1;
  const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  const ink = { text, muted, accent: colour('forecast'), warn: colour('warn'), bad: colour('bad'), surface: colour('surface'), font, ratio };
  const axis = { stroke: muted, font, grid: { stroke: grid, width: 1 / ratio }, ticks: { show: false } };
  const options = {
    width: Math.max(200, byId('chart').clientWidth), height: HEIGHT, padding: [18, 22, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: span },
      y: { range: () => [0, ceiling()] },
    },
    axes: [
      { ...axis, space: 80, size: 32, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map(axisTime), incrs: [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400] },
      { ...axis, size: 46, space: 44, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map(limit) },
    ],
    series: [
      {},
      ...edges.map((at) => ({ label: stack[at].name, stroke: colours[at], width: 1.25, dash: sparse() ? DASHES[at] : [], fill: at === 0 ? faint(colours[at], 0.22) : undefined, points: { show: false } })),
      { label: 'All', stroke: text, width: 2.25, points: { show: false } },
      { label: 'Quota', stroke: colour('quota'), width: 1.5, dash: [12, 5], points: { show: false } },
    ],
    bands: edges.slice(0, -1).map((at, k) => ({ series: [k + 1, k + 2], fill: faint(colours[at], 0.22) })),
    hooks: {
      draw: [(/** @type {any} */ u) => drawOver(u, stack, ink)],
      setCursor: [(/** @type {any} */ u) => {
        const at = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, 'x') : null;
        if (at === pointed) return;
        pointed = at;
        touch();
      }],
    },
  };
  plot = new UPlot(options, columns(stack), byId('chart'));
  setAttr(byId('chart'), 'data-lines', String(top));
}

function ceiling() {
  let most = 1;
  for (const list of [curves().rate, curves().quota]) for (const value of list) if (value !== null && value > most) most = value;
  for (const bucket of buckets()) most = Math.max(most, bucket.value);
  return most * 1.14;
}

export function startChart() {
  for (const [name, label] of RANGES) {
    const input = h('input', { type: 'radio', name: 'range', value: name, change: () => {
      range = name;
      takeLong();
      touch();
    } });
    input.checked = name === range;
    byId('range').append(h('label', {}, input, h('span', { text: label })));
  }
  const toggle = byId('as-table');
  toggle.addEventListener('click', () => {
    asTable = !asTable;
    toggle.setAttribute('aria-pressed', String(asTable));
    show(byId('chart-table'), asTable);
    show(byId('chart'), !asTable);
    touch();
  });
  new ResizeObserver(() => {
    const width = byId('chart').clientWidth;
    if (plot && width > 0 && width !== plot.width) plot.setSize({ width, height: HEIGHT });
  }).observe(byId('chart'));
}

let asked = 0;
/** Reads the curves of a long range, now and as long as it is shown. */
async function takeLong() {
  const mine = ++asked;
  const wanted = range;
  if (wanted !== '6h' && wanted !== '2d') {
    model.long = null;
    return;
  }
  try {
    const read_ = await read(`/api/history?span=${wanted}`);
    if (mine !== asked) return;
    model.long = read_;
    touch();
  } catch (error) {
    if (mine === asked) toast('The curves were not read', error instanceof ApiError ? error.message : 'The console did not answer.', 'bad');
  }
  setTimeout(() => {
    if (mine === asked) takeLong();
  }, ANEW_MS);
}

/** The theme's colours are drawn in: another theme is another plot. */
export function recolour() {
  made = '';
  touch();
}

export function renderChart() {
  if (!model.figures) return;
  const stack = groups();
  const key = [sparse(), ...stack.map((group) => group.name)].join('\n');
  const ending = /** @type {HTMLInputElement} */ (byId('range').querySelector('[value=end]'));
  const end = forecastEnd();
  ending.disabled = end === null || end < now() / 1000;
  setAttr(/** @type {Element} */ (ending.parentElement), 'title', ending.disabled ? 'There is no forecast with an end now' : 'To the end of the forecast');
  if (asTable) renderTable(stack);
  else if (made !== key || !plot) {
    made = key;
    build(stack);
  } else plot.setData(columns(stack));
  renderLegend(stack, sparse() ? DASHES : DASHES.map(() => []), pointed);
  setAttr(byId('chart'), 'aria-label', summary(stack));
  const { forecast } = model;
  const at = forecast?.made_at ? ` Made at ${clock(forecast.made_at)}, renewed as things change.` : '';
  setText(byId('chart-note'), forecast?.state === 'ready' ? `The dashed line is the forecast, made by the code that sends.${at}`
    : forecast?.state === 'failed' || forecast?.state === 'none' ? `No forecast: ${forecast.why ?? 'nothing waits'}.` : forecast?.state === 'running' ? 'The forecast is being made.' : '');
}
