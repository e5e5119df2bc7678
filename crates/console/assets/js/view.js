// What the page is about: the whole stack, or one campaign, which has an address of its own (`#campaign=news`).

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

export function startView() {
  addEventListener('hashchange', () => {
    scrollTo(0, 0);
    touch();
  });
}
