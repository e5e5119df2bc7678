// A benchmark, not a promise: `make bench-page`. The time of a frame with 20 and with 200 campaigns, as a ratio to
// one with 2, at new figures five times a second; and the time to the first paint, wanted below 200 ms.

import { promise } from '../lib/promise.js';

promise('the time of a frame by the number of campaigns', async ({ browser, console }) => {
  /** @type {number | null} */
  let two = null;
  for (const many of [2, 20, 200]) {
    const tab = await browser.open(console);
    const median = await tab.page.evaluate(async (wanted) => {
      const { model, append } = await import(/** @type {string} */ (new URL('./model.js', /** @type {HTMLScriptElement} */ (document.querySelector('script[type=module]')).src).href));
      const multiply = (/** @type {any[]} */ list) => Array.from({ length: wanted }, (_, at) => ({ ...list[at % list.length], name: `campaign-${at}` }));
      const base = structuredClone(model.figures);
      /** @type {number[]} */
      const spent = [];
      const frame = requestAnimationFrame.bind(window);
      for (let look = 1; look <= 50; look++) {
        const at = new Date(Date.parse(base.at) + look * 2_000).toISOString();
        const rows = multiply(base.rows).map((row, place) => ({ ...row, rate: Math.random() * 10, waiting: 1_000 + look * place, sent: 500 + look }));
        window.requestAnimationFrame = (draw) => frame((time) => {
          const begun = performance.now();
          draw(time);
          // The layout is a part of the frame.
          document.body.getBoundingClientRect();
          spent.push(performance.now() - begun);
        });
        append({ ...base, at, rows, status: { ...base.status, at, campaigns: multiply(base.status.campaigns) } });
        await new Promise((done) => setTimeout(done, 200));
      }
      window.requestAnimationFrame = frame;
      return spent.sort((a, b) => a - b)[Math.floor(spent.length / 2)];
    }, many);
    two ??= median;
    process.stdout.write(`${many} campaigns: ${median.toFixed(1)} ms a frame, ${(median / two).toFixed(1)} times that of 2\n`);
    await tab.page.context().close();
  }
});

promise('the time from the address to the first paint, and to the figures', async ({ browser, console }) => {
  /** @type {Record<string, number[][]>} */
  const times = { 'for the first time': [], again: [] };
  for (let visit = 0; visit < 10; visit++) {
    const tab = await browser.open(console);
    for (const list of Object.values(times)) {
      await tab.page.goto('about:blank');
      await tab.page.goto(console.url);
      list.push(await tab.page.evaluate(async () => {
        while (!document.documentElement.classList.contains('ready')) await new Promise(requestAnimationFrame);
        const ready = performance.now();
        let painted;
        while (!(painted = performance.getEntriesByName('first-contentful-paint')[0])) await new Promise(requestAnimationFrame);
        return [painted.startTime, ready];
      }));
    }
    await tab.page.context().close();
  }
  const median = (/** @type {number[]} */ list) => list.sort((a, b) => a - b)[list.length >> 1].toFixed(0);
  for (const [name, list] of Object.entries(times)) {
    const [painted, ready] = [0, 1].map((at) => median(list.map((visit) => visit[at])));
    process.stdout.write(`opened ${name}: first paint after ${painted} ms, its login known after ${ready} ms\n`);
  }
});
