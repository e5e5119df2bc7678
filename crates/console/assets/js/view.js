// What the page is about: the whole stack, or one campaign, which has an address of its own (`#campaign=news`).

import { model, touch } from './model.js';

const PREFIX = '#campaign=';

/** The campaign that the page is about; none for the whole stack. */
export function campaignShown() {
  const { hash } = location;
  if (!hash.startsWith(PREFIX)) return null;
  try {
    return decodeURIComponent(hash.slice(PREFIX.length)) || null;
  } catch {
    return null;
  }
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
