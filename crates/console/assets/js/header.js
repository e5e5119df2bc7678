// The bar at the top and the sentence below it: name, connection, theme, headline.

import { byId, h, icon, keyed, setAttr, setIcon, setText, show } from './dom.js';
import { clockSeconds, full, span } from './format.js';
import { headline, subline } from './headline.js';
import { age, foreseen, isStale, model } from './model.js';

const THEMES = [['system', 'System theme'], ['light', 'Light theme'], ['dark', 'Dark theme']];
/** @type {{[name: string]: string}} */
const THEME_ICONS = { system: 'system', light: 'sun', dark: 'moon' };

const GREY = `data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#8b919d"/></svg>')}`;
/** @type {string | undefined} */
let bright;
let spoken = '';
/** @type {() => void} */
let themed = () => {};

/** @param {() => void} onTheme */
export function startHeader(onTheme) {
  themed = onTheme;
  const host = byId('theme');
  const current = document.documentElement.dataset.theme ?? 'system';
  for (const [name, label] of THEMES) {
    const input = h('input', { type: 'radio', name: 'theme', value: name, 'aria-label': label, change: () => setTheme(name) });
    input.checked = name === current;
    host.append(h('label', { title: label }, input, h('span', {}, icon(THEME_ICONS[name]))));
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => themed());
}

/** @param {string} name */
function setTheme(name) {
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    if (name === 'system') localStorage.removeItem('tidegate.theme');
    else localStorage.setItem('tidegate.theme', name);
  } catch {
    // It stands until the page is left.
  }
  themed();
}

/** @returns {[state: string, icon: string, text: string, title: string]} */
function connection() {
  const seconds = age();
  const old = isStale() ? `figures are ${span(seconds)} old` : '';
  const of = model.figures ? `Figures of ${full(model.figures.at)}` : '';
  if (model.connection === 'connecting') return ['connecting', 'wait', 'Connecting', ''];
  if (model.connection !== 'live') return ['lost', 'warn', old ? `Reconnecting, ${old}` : 'Reconnecting', of];
  const failed = model.figures?.failed;
  if (failed && !old) return ['stale', 'warn', 'The last look failed', `${failed}. ${of}`];
  if (old) return ['stale', 'warn', `Figures are ${span(seconds)} old`, of];
  return ['live', 'live', 'Live', of];
}

export function renderHeader() {
  const { session, figures } = model;
  const name = session?.stack ?? figures?.status.stack ?? '';
  setText(byId('stack-name'), name);
  const where = session ? (session.local ? 'local' : session.region) : null;
  show(byId('region'), Boolean(where));
  setText(byId('region'), where ?? '');

  const [state, sign, text, title] = connection();
  const pill = byId('connection');
  setAttr(pill, 'data-state', state);
  setAttr(pill, 'data-at', figures?.at ?? null);
  setAttr(pill, 'title', title || null);
  setIcon(/** @type {SVGSVGElement} */ (pill.querySelector('svg')), sign);
  setText(/** @type {Element} */ (pill.querySelector('.connection-text')), text);

  const says = headline();
  const line = byId('headline');
  const whole = says.next ? `${says.text} ${says.next}` : says.text;
  if (line.textContent !== whole) line.replaceChildren(says.next ? `${says.text} ` : says.text, ...(says.next ? [h('span', { class: 'next', text: says.next })] : []));
  setAttr(line, 'data-tone', says.tone);
  setAttr(line, 'data-kind', says.kind);
  setAttr(line, 'title', says.title ? `Since ${says.title}` : null);
  setText(byId('subline'), subline());
  const old = state === 'lost' || state === 'stale';
  document.documentElement.classList.toggle('old', old);
  const sign_ = /** @type {HTMLLinkElement} */ (document.querySelector('link[rel=icon]'));
  bright ??= sign_.href;
  // In the page: a console that has gone sends no file.
  setAttr(sign_, 'href', old ? GREY : bright);

  const ringing = figures?.monitor.report?.ringing ?? [];
  const alarms = ringing.map(({ name, since, why }) => `The alarm ${name} rings${since ? ` since ${clockSeconds(since)}` : ''}: ${why}`);
  const warnings = [...new Set([...alarms, ...(figures?.failed ? [`The stack does not answer, and is asked again every second: ${figures.failed}`] : []), ...(foreseen()?.warnings ?? []).map((warning) => `Forecast: ${warning}`)])];
  show(byId('warnings'), warnings.length > 0);
  keyed(byId('warnings'), warnings, (warning) => warning, (warning) => h('li', {}, icon('warn'), h('span', { text: warning, title: warning })));

  document.title = `${short(says.text)} · ${name || 'Tidegate'}`;
  // Only a new kind of state is spoken, never each second's figures.
  const speech = `${says.kind} ${state === 'live' ? '' : state}`;
  if (speech !== spoken && figures) {
    if (spoken) setText(byId('announce'), state === 'lost' ? 'The connection to the console is lost; reconnecting.' : says.text);
    spoken = speech;
  }
  const version = session ? `Tidegate ${session.version}` : 'Tidegate';
  setText(byId('foot'), figures ? `${version}. Figures of ${clockSeconds(figures.at)}, ${zone}. Rates are of the last 10 seconds.` : version);
}

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** @param {string} text */
function short(text) {
  const end = text.search(/[.,:;(]( |$)/);
  return end > 0 ? text.slice(0, end) : text;
}
