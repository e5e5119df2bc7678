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

promise('the time from the address to the first paint, beside that of a page without figures', async ({ browser, console, stack }) => {
  // The page is measured, not a local AWS beside it.
  await stack.tidegate('pause', '--reason', 'a measurement');
  await new Promise((done) => setTimeout(done, 10_000));
  /** @type {[name: string, address: string, times: number[]][]} */
  const pages = [['the page, for the first time', console.url, []], ['the page again', console.url, []], ['the login page', `${console.url}login`, []]];
  for (let visit = 0; visit < 15; visit++) {
    const { page } = await browser.tab();
    for (const [, address, times] of pages) {
      await page.goto('about:blank');
      await page.goto(address);
      times.push(await page.evaluate(async () => {
        let painted;
        while (!(painted = performance.getEntriesByName('first-contentful-paint')[0])) await new Promise(requestAnimationFrame);
        return painted.startTime;
      }));
    }
    await browser.closeTabs();
  }
  for (const [name, , times] of pages) {
    process.stdout.write(`${name}: first paint after ${times.sort((a, b) => a - b)[times.length >> 1].toFixed(0)} ms\n`);
  }
  await stack.tidegate('resume', '--reason', 'it is over');
});
