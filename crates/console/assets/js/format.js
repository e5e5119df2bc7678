// Counts, rates, spans and times as people read them, in the browser's locale.

/** @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/**
 * @param {number} least
 * @param {number} most
 */
function decimals(least, most) {
  const key = `${least} ${most}`;
  let format = formats.get(key);
  if (!format) {
    format = new Intl.NumberFormat(undefined, { minimumFractionDigits: least, maximumFractionDigits: most });
    formats.set(key, format);
  }
  return format;
}

export const NONE = '–';

/** @typedef {number | null | undefined} Maybe */

/** @param {Maybe} value */
export function count(value) {
  return value === null || value === undefined ? NONE : decimals(0, 0).format(value);
}

/** @param {number} value US dollars */
export function dollars(value) {
  return value > 0 && value < 0.005 ? 'below $0.01' : `$${value.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** @param {Maybe} value a limit: as many decimals as it needs, at most two */
export function limit(value) {
  return value === null || value === undefined ? NONE : decimals(0, 2).format(value);
}

/** @param {Maybe} value a measured rate: always one decimal, so that it does not jump */
export function rate(value) {
  if (value === null || value === undefined) return NONE;
  return value > 0 && value < 0.1 ? decimals(2, 2).format(value) : decimals(1, 1).format(value);
}

/** @param {Maybe} value @param {number} [digits] */
export function percent(value, digits = 0) {
  if (value === null || value === undefined) return NONE;
  return `${decimals(digits, digits).format(value * 100)}\u00a0%`;
}

/** @param {Maybe} value progress: 100 only once all is done */
export function progress(value) {
  if (value === null || value === undefined) return NONE;
  const floored = value >= 1 ? 1 : Math.min(0.999, Math.floor(value * 1000) / 1000);
  return percent(floored, value >= 1 ? 0 : 1);
}

/** @param {Maybe} seconds */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}\u00a0s`;
  if (s < 600) {
    const rest = s % 60;
    return rest ? `${Math.floor(s / 60)}\u00a0min ${rest}\u00a0s` : `${s / 60}\u00a0min`;
  }
  const minutes = Math.round(s / 60);
  if (minutes < 60) return `${minutes}\u00a0min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours}\u00a0h ${minutes % 60}\u00a0min` : `${hours}\u00a0h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days}\u00a0d ${hours % 24}\u00a0h` : `${days}\u00a0d`;
}

/** @param {number} seconds a span in its largest unit, for sentences with "about" */
export function about(seconds) {
  const s = Math.max(0, seconds);
  if (s < 10) return 'a few seconds';
  if (s < 90) return `${Math.round(s / 10) * 10}\u00a0s`;
  return span(Math.round(s / 60) * 60);
}

/** @param {Maybe} seconds waits below a second in milliseconds, short ones with a decimal */
export function wait(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)}\u00a0ms`;
  return seconds < 10 ? `${decimals(1, 1).format(seconds)}\u00a0s` : span(seconds);
}

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const secondsFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayFormat = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
const fullFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

/** @param {number} ms */
function sameDay(ms) {
  return new Date(ms).toDateString() === new Date().toDateString();
}

/** @param {string | number | null | undefined} at @returns {number | null} epoch milliseconds */
export function instant(at) {
  if (at === null || at === undefined) return null;
  const ms = typeof at === 'number' ? at : Date.parse(at);
  return Number.isFinite(ms) ? ms : null;
}

/** @param {string | number | null | undefined} at hours and minutes; the day where it is another */
export function clock(at) {
  const ms = instant(at);
  if (ms === null) return NONE;
  return (sameDay(ms) ? clockFormat : dayFormat).format(ms);
}

/** @param {string | number | null | undefined} at */
export function clockSeconds(at) {
  const ms = instant(at);
  if (ms === null) return NONE;
  return (sameDay(ms) ? secondsFormat : dayFormat).format(ms);
}

/** @param {string | number | null | undefined} at date, time and zone, for titles */
export function full(at) {
  const ms = instant(at);
  return ms === null ? '' : fullFormat.format(ms);
}

/** @param {number} n @param {string} one @param {string} [many] */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** @param {string[]} parts */
export function listed(parts) {
  return new Intl.ListFormat('en', { type: 'conjunction' }).format(parts);
}

/** @param {string} text */
export function sentence(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** @param {string} key words of the wire, such as `daily_quota` */
export function words(key) {
  return key.replaceAll('_', ' ');
}
