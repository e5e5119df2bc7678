// A page that is shown another state than its stack's: what the console would tell it, changed.

/** The state that a console tells a page that is opened. @param {import('./console.js').Console} console @returns {Promise<any>} */
export async function told(console) {
  const answer = await fetch(`${console.url}api/events`);
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  let begin = '';
  while (!/event: ?state[^]*?\n\n/.test(begin)) begin += decoder.decode((await reader.read()).value, { stream: true });
  await reader.cancel();
  return JSON.parse(/data: ?(.*)/.exec(/event: ?state[^]*?\n\n/.exec(begin)?.[0] ?? '')?.[1] ?? '');
}

/**
 * Opens the page with this state alone: its figures come every second as of now, or once as of `age` seconds ago.
 * @param {import('./browser.js').Tab} tab @param {string} url @param {any} state @param {number} [age]
 */
export async function pretend(tab, url, state, age = 0) {
  await tab.page.addInitScript(({ state, age }) => {
    const now = () => {
      const at = new Date(Date.now() - age * 1000).toISOString();
      return { ...state.figures, at, status: { ...state.figures.status, at } };
    };
    globalThis.EventSource = /** @type {any} */ (class extends EventTarget {
      readyState = 1;

      constructor() {
        super();
        const tell = (/** @type {string} */ name, /** @type {any} */ data) => this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
        setTimeout(() => tell('state', { ...state, figures: now() }));
        if (age === 0) setInterval(() => tell('figures', now()), 1000);
      }

      close() {}
    });
  }, { state, age });
  // Another address than before, whatever stands behind `#`.
  await tab.page.goto('about:blank');
  await tab.page.goto(url);
  await tab.page.locator('#headline[data-kind]:not([data-kind=none])').waitFor();
}
