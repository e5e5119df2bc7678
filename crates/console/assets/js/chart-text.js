// The chart in words: legend with values, a summary, the last minute as a table.

import { forecastAt, forecastEnd, valueOf } from './chart-data.js';
import { byId, h, keyed, setText } from './dom.js';
import { clock, clockSeconds, limit, rate } from './format.js';
import { capital, curves, isStale, model, now } from './model.js';
import { say } from './words.js';

/** @typedef {import('./chart-data.js').Group} Group */
/** @typedef {{key: string, label: string, colour: string, dash: number[], kind: string, value: string}} Line */

const SVG = 'http://www.w3.org/2000/svg';

/** @param {Line} line */
function swatch(line) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', `swatch ${line.kind} ${line.colour}`);
  svg.setAttribute('viewBox', '0 0 24 10');
  svg.setAttribute('aria-hidden', 'true');
  if (line.kind === 'area') {
    const area = document.createElementNS(SVG, 'rect');
    for (const [name, value] of Object.entries({ x: '0', y: '2', width: '24', height: '8', 'fill-opacity': '.28', fill: 'currentColor' })) area.setAttribute(name, value);
    svg.append(area);
  }
  const stroke = document.createElementNS(SVG, 'path');
  stroke.setAttribute('d', line.kind === 'area' ? 'M0 2h24' : 'M0 5h24');
  stroke.setAttribute('stroke', 'currentColor');
  stroke.setAttribute('stroke-width', line.kind === 'bold' ? '3' : '2');
  if (line.dash.length) stroke.setAttribute('stroke-dasharray', line.dash.join(' '));
  svg.append(stroke);
  return svg;
}

/** @param {number | null} pointed @returns {number} the index of the newest point, or of the one under the pointer; -1 in the future */
function indexAt(pointed) {
  const { t } = curves();
  if (pointed === null) return t.length - 1;
  const last = t.at(-1);
  if (last === undefined || pointed > last + 3) return -1;
  let best = 0;
  for (let at = 0; at < t.length; at++) if (Math.abs(t[at] - pointed) < Math.abs(t[best] - pointed)) best = at;
  return best;
}

/** @param {Group[]} stack @param {number[][]} dashes @param {number | null} pointed */
export function renderLegend(stack, dashes, pointed) {
  const at = indexAt(pointed);
  const series = curves();
  /** @param {number | null | undefined} value */
  const shown = (value) => (at < 0 ? '–' : rate(value));
  const time = pointed ?? now() / 1000;
  const forecast = forecastAt(time);
  /** @type {Line[]} */
  const lines = [
    { key: 'all', label: 'All', colour: 'ink-text', dash: [], kind: 'bold', value: shown(series.rate[at]) },
    { key: 'quota', label: 'Quota', colour: 'ink-quota', dash: [6, 3], kind: 'line', value: at < 0 ? '–' : limit(series.quota[at]) },
    ...stack.map((group, k) => ({ key: `c ${group.name}`, label: group.name, colour: `ink-${k + 1}`, dash: dashes[k], kind: 'area', value: shown(at < 0 ? null : valueOf(group, at)) })),
  ];
  if (model.forecast?.state === 'ready') lines.splice(2, 0, { key: 'forecast', label: 'Forecast', colour: 'ink-forecast', dash: [4, 3], kind: 'line', value: rate(forecast) });
  lines.push({ key: 'time', label: pointed === null ? (isStale() ? 'last known' : 'now') : clockSeconds(pointed * 1000), colour: '', dash: [], kind: 'time', value: '' });
  keyed(byId('legend'), lines, (line) => `${line.key} ${line.colour} ${line.dash}`,
    (line) => h('li', { class: line.kind === 'time' ? 'legend-time' : null }, line.kind === 'time' ? null : swatch(line), h('span', { class: 'legend-name' }), h('span', { class: 'legend-value' })),
    (item, line) => {
      setText(/** @type {Element} */ (item.querySelector('.legend-name')), line.label);
      setText(/** @type {Element} */ (item.querySelector('.legend-value')), line.value);
    });
}

/** @param {Group[]} stack */
export function summary(stack) {
  const series = curves();
  const at = series.t.length - 1;
  if (at < 0) return 'Chart of what is sent a second; no figures yet';
  const parts = stack.map((group) => `${group.name} ${rate(valueOf(group, at))}`);
  const end = forecastEnd();
  return `Chart of ${say.unit}s sent a second. Now ${rate(series.rate[at])} of a quota of ${limit(series.quota[at])}${parts.length ? `: ${parts.join(', ')}` : ''}.${
    end !== null && model.forecast?.ends_at ? ` By the forecast all is sent at ${clock(end * 1000)}.` : ''} The button “As a table” shows the last minute in numbers.`;
}

/** @param {Group[]} stack */
export function renderTable(stack) {
  const host = byId('chart-table');
  const series = curves();
  const from = now() / 1000 - 60;
  const points = series.t.map((t, at) => ({ t, at })).filter(({ t }) => t >= from).reverse();
  const key = stack.map((group) => group.name).join('\n');
  if (host.dataset.key !== key) {
    host.dataset.key = key;
    const heads = ['Time', 'All', 'Quota', ...stack.map((group) => group.name)];
    host.replaceChildren(h('table', { class: 'plain' },
      h('caption', { class: 'hidden', text: `${capital(say.unit)}s sent a second, in the last minute` }),
      h('thead', {}, h('tr', {}, ...heads.map((text) => h('th', { scope: 'col', text })))),
      h('tbody')));
  }
  const body = /** @type {HTMLElement} */ (host.querySelector('tbody'));
  keyed(body, points, ({ t }) => String(t), ({ t, at }) => h('tr', {},
    h('th', { scope: 'row', text: clockSeconds(t * 1000) }),
    ...[rate(series.rate[at]), limit(series.quota[at]), ...stack.map((group) => rate(valueOf(group, at)))].map((text) => h('td', { class: 'number', text }))));
}
