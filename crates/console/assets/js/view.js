// What the page is about: the whole stack, its limits, its history, or one campaign (`#campaign=news`).

import { byId, setAttr } from './dom.js';
import { model, touch } from './model.js';

const PREFIX = '#campaign=';

/** The name behind `prefix` in the page's address; none if there is none, or one that cannot be read. @param {string} prefix */
export function named(prefix) {
  const { hash } = location;
  if (!hash.startsWith(prefix)) return null;
  try {
    return decodeURIComponent(hash.slice(prefix.length)) || null;
  } catch {
    return null;
  }
}

/** The campaign that the page is about; none for the whole stack. */
export function campaignShown() {
  return named(PREFIX);
}

/** @param {string} name */
export function addressOf(name) {
  return PREFIX + encodeURIComponent(name);
}

/** Whether something belongs on the page. @param {string | null} campaign */
export function isShown(campaign) {
  const shown = campaignShown();
  return shown === null || shown === campaign;
}

/** The campaign that is shown, with its figures; none if there is none of this name. */
export function shownFigures() {
  const name = campaignShown();
  const campaign = model.figures?.status.campaigns.find((one) => one.name === name);
  return campaign ? { campaign, row: model.figures?.rows.find((row) => row.name === name) } : null;
}

/** The page by its address: `all`, `limits`, `history`, or `one` campaign. */
export function page() {
  if (campaignShown() !== null) return 'one';
  return location.hash === '#limits' || location.hash === '#history' ? location.hash.slice(1) : 'all';
}

export function renderView() {
  document.documentElement.dataset.page = page();
  for (const link of document.querySelectorAll('.pages a')) setAttr(link, 'aria-current', link.getAttribute('href') === (page() === 'all' ? '#' : location.hash) ? 'page' : null);
}

export function startView() {
  addEventListener('hashchange', () => {
    scrollTo(0, 0);
    touch();
  });
  // A phone shows the campaigns before the figures, also to whoever goes from one to the next by keyboard.
  const narrow = matchMedia('(max-width: 620px)');
  const campaigns = byId('campaigns-panel');
  const chart = byId('chart-panel');
  const place = () => (narrow.matches ? byId('figures').before(campaigns) : chart.after(campaigns));
  narrow.addEventListener('change', place);
  place();
}
