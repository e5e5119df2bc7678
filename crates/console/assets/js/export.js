// The chart's figures as a file of comma-separated values, and the chart as a picture.

import { byId, h } from './dom.js';
import { curves, model } from './model.js';
import { campaignShown } from './view.js';

/** @param {Blob} content @param {string} ending */
function save(content, ending) {
  const url = URL.createObjectURL(content);
  const parts = [model.session?.stack ?? 'tidegate', campaignShown(), new Date().toISOString().slice(0, 19).replaceAll(':', '')];
  const name = `${parts.filter(Boolean).join('-').replace(/[^\w.-]+/g, '_')}.${ending}`;
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A cell that no spreadsheet takes for a formula or for two. @param {string} text */
function cell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A line for each point: time, recipients a second of all and of each campaign, quota. */
export function table() {
  const { t, rate, quota, campaigns } = curves();
  const own = campaignShown();
  const names = Object.keys(campaigns).filter((name) => own === null || name === own);
  const number = (/** @type {number | null | undefined} */ value) => (value === null || value === undefined ? '' : String(value));
  const lines = t.map((at, k) => [new Date(at * 1000).toISOString(), number(rate[k]), number(quota[k]), ...names.map((name) => number(campaigns[name][k]))].join(','));
  return `${[['time', 'all', 'quota', ...names].map(cell).join(','), ...lines].join('\r\n')}\r\n`;
}

function picture() {
  const drawn = /** @type {HTMLCanvasElement | null} */ (byId('chart').querySelector('canvas'));
  if (!drawn) return;
  const whole = h('canvas', { width: drawn.width, height: drawn.height });
  const paint = whole.getContext('2d');
  if (!paint) return;
  paint.fillStyle = getComputedStyle(/** @type {Element} */ (byId('chart').closest('.panel'))).backgroundColor;
  paint.fillRect(0, 0, whole.width, whole.height);
  paint.drawImage(drawn, 0, 0);
  whole.toBlob((blob) => {
    if (blob) save(blob, 'png');
  });
}

export function startExport() {
  byId('as-csv').addEventListener('click', () => save(new Blob([table()], { type: 'text/csv' }), 'csv'));
  byId('as-picture').addEventListener('click', picture);
}
