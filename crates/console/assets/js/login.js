// The page of its own that takes the token, from the address's fragment or from the field.

import { byId } from './dom.js';

const form = /** @type {HTMLFormElement} */ (byId('login'));
const field = /** @type {HTMLInputElement} */ (byId('token'));
const button = /** @type {HTMLButtonElement} */ (form.querySelector('button'));

/** @param {string} text */
function fail(text) {
  byId('token-error').textContent = text;
  field.setAttribute('aria-invalid', 'true');
  field.focus();
}

/** @param {string} token */
async function login(token) {
  button.disabled = true;
  byId('token-error').textContent = '';
  field.removeAttribute('aria-invalid');
  try {
    const response = await fetch('/api/login', {
      method: 'POST',
      credentials: 'same-origin',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    if (response.ok) {
      location.replace('/');
      return;
    }
    if (response.status === 401) fail('This is not the token. A console that was restarted has a new one.');
    else if (response.status === 429) fail(`Too many tries. Try again in ${response.headers.get('Retry-After') ?? 'some'} s.`);
    else fail(`The console answered ${response.status}.`);
  } catch {
    fail('The console did not answer.');
  } finally {
    button.disabled = false;
  }
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const token = field.value.trim();
  if (token) login(token);
  else fail('The token is missing.');
});

/** @returns {boolean} whether the address has a token */
function followLink() {
  const linked = new URLSearchParams(location.hash.slice(1)).get('token');
  // The token stays neither in the address bar nor in the history.
  if (location.hash) history.replaceState(null, '', location.pathname);
  if (linked) login(linked);
  return Boolean(linked);
}

// A link pasted where this page stands already loads nothing anew.
addEventListener('hashchange', followLink);
if (!followLink()) field.focus();
