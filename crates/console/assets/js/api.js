// Calls of the console's server.

import { clockSeconds } from './format.js';

/** @typedef {import('./types.js').Session} Session */

export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {string} code
   * @param {string | null} field
   */
  constructor(message, code, field) {
    super(message);
    this.code = code;
    this.field = field;
  }
}

// Unicode's characters for the direction of writing (UAX #9, 2): others' text that has them may look like another.
const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Sentences of the server have their times in UTC; all others on the page are the browser's.
const UTC = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g;

// Others' text stays as they wrote it.
const OTHERS = new Set(['body', 'said', 'reason', 'id', 'identity', 'by']);

/** @param {string} name @param {unknown} value */
function inOurZone(name, value) {
  if (typeof value !== 'string' || OTHERS.has(name)) return value;
  return value.replace(UTC, (_, day, time) => clockSeconds(`${day}T${time}Z`));
}

/** JSON with those characters shown as `\u{…}`, and the times of our sentences in the browser's zone. @param {string} json */
export function parse(json) {
  const shown = json.replace(DIRECTIONS, (c) => `\\\\u{${c.charCodeAt(0).toString(16)}}`);
  return json.includes(' UTC') ? JSON.parse(shown, inOurZone) : JSON.parse(shown);
}

let csrf = '';

export function toLogin() {
  location.assign('/login');
}

/** @param {Response} response */
async function refusal(response) {
  const body = await response.text().then(parse).catch(() => null);
  const text = body?.error ?? `The console answered ${response.status}`;
  return new ApiError(text, body?.code ?? 'service', body?.field ?? null);
}

/** @returns {Promise<Session>} */
export async function session() {
  const response = await fetch('/api/session', { cache: 'no-store', credentials: 'same-origin' });
  if (response.status === 401) {
    toLogin();
    throw new ApiError('Log in again', 'unauthorized', null);
  }
  if (!response.ok) throw await refusal(response);
  /** @type {Session} */
  const answer = parse(await response.text());
  csrf = answer.csrf;
  return answer;
}

/** @param {string} path @returns {Promise<any>} */
export async function read(path) {
  const response = await fetch(path, { cache: 'no-store', credentials: 'same-origin' });
  if (response.status === 401) toLogin();
  if (!response.ok) throw await refusal(response);
  return parse(await response.text());
}

/**
 * @param {string} path
 * @param {object} body
 * @param {boolean} [again]
 * @returns {Promise<any>}
 */
export async function post(path, body, again = true) {
  let response;
  try {
    response = await fetch(path, {
      method: 'POST',
      credentials: 'same-origin',
      headers: { 'Content-Type': 'application/json', 'X-Tidegate-Csrf': csrf },
      body: JSON.stringify(body),
    });
  } catch {
    throw new ApiError('The console did not answer. Whether it was done is not known: look before you try again.', 'service', null);
  }
  if (response.ok) return response.status === 204 ? null : response.text().then(parse).catch(() => null);
  const error = await refusal(response);
  if (error.code === 'csrf' && again) {
    // A console that was restarted gives out new tokens.
    await session();
    return post(path, body, false);
  }
  if (response.status === 401) toLogin();
  throw error;
}
