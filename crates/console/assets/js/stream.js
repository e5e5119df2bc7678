// The stream of events: opened, watched, closed while nobody looks, and opened again where it was.

import { parse, session } from './api.js';
import { append, model, takeChanges, takeGap, takeState, touch } from './model.js';

const LOST_MS = 40_000;
const AGAIN_MS = 5_000;
const HIDDEN_MS = 60_000;
const CHANGES = ['hold', 'pause', 'breaker', 'level', 'quota', 'serving', 'progress', 'dead_letter', 'change'];

/** @type {EventSource | null} */
let source = null;
let lastId = '';
let heard = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let again;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let sleep;

/** @param {import('./types.js').Connection} connection */
function become(connection) {
  if (model.connection === connection) return;
  model.connection = connection;
  touch();
}

/**
 * @param {EventSource} stream
 * @param {string} name
 * @param {(data: any) => void} take
 */
function on(stream, name, take) {
  stream.addEventListener(name, (event) => {
    if (stream !== source) return;
    heard = Date.now();
    if (event.lastEventId) lastId = event.lastEventId;
    become('live');
    try {
      take(parse(event.data));
    } catch (error) {
      console.error(`event ${name}`, error);
    }
  });
}

function open() {
  clearTimeout(again);
  source?.close();
  heard = Date.now();
  const query = lastId ? `?last_event_id=${encodeURIComponent(lastId)}` : '';
  const stream = new EventSource(`/api/events${query}`);
  source = stream;
  stream.onopen = () => {
    heard = Date.now();
  };
  stream.onerror = () => {
    if (stream !== source) return;
    become('reconnecting');
    if (stream.readyState === EventSource.CLOSED) refused();
  };
  on(stream, 'state', takeState);
  on(stream, 'figures', append);
  on(stream, 'forecast', (forecast) => {
    model.forecast = forecast;
    touch();
  });
  on(stream, 'dead', (dead) => {
    model.dead = dead;
    touch();
  });
  on(stream, 'replay', (replay) => {
    model.replay = replay;
    touch();
  });
  on(stream, 'gap', takeGap);
  for (const name of CHANGES) on(stream, name, (change) => takeChanges([change]));
}

// EventSource tells no status: the session says whether it is a log-in that is missing.
async function refused() {
  clearTimeout(again);
  again = setTimeout(open, AGAIN_MS);
  try {
    model.session = await session();
  } catch {
    // Tried again with the next opening.
  }
}

function visibility() {
  clearTimeout(sleep);
  if (document.hidden) {
    // A browser allows a host six connections: a hidden tab gives its own back.
    sleep = setTimeout(() => {
      clearTimeout(again);
      source?.close();
      source = null;
      become('asleep');
    }, HIDDEN_MS);
  } else if (!source) {
    become('reconnecting');
    open();
  }
}

export function start() {
  document.addEventListener('visibilitychange', visibility);
  setInterval(() => {
    if (source && Date.now() - heard > LOST_MS) {
      become('reconnecting');
      open();
    }
  }, 5_000);
  open();
}
