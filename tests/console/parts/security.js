// Who may come, what the browser keeps, and what no other page can do.

import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { once } from 'node:events';

import { ELSEWHERE } from '../lib/browser.js';
import { promise } from '../lib/promise.js';
import { until } from '../lib/wait.js';

const TOKEN = 'correct-horse-battery-staple';
const ACTION = JSON.stringify({ action: 'pause', campaign: null, reason: 'by another page' });

/** @typedef {import('../lib/stack.js').Stack} Stack */

/** Nothing of what was tried may have been done. @param {Stack} stack */
async function untouched(stack) {
  assert.deepEqual((await stack.status()).holds, []);
  assert.ok((await stack.history()).every(({ reason }) => reason !== 'by another page'));
}

promise('a console with a token lets nobody in without it, and keeps it out of the address and of scripts', async ({ stack, browser }) => {
  const guarded = await stack.console([], { TIDEGATE_CONSOLE_TOKEN: TOKEN });
  const tab = await browser.tab({ errors: /status of 40[13]/ });
  await tab.page.goto(guarded.url);
  assert.equal(new URL(tab.page.url()).pathname, '/login');
  await tab.at('token').fill(`${TOKEN}r`);
  await tab.at('login-go').click();
  await tab.page.getByText('This is not the token').waitFor();
  // A link with a wrong one is out of the address bar before anybody answers.
  await tab.page.goto('about:blank');
  await tab.page.goto(`${guarded.url}login#token=${TOKEN}r`);
  await tab.page.getByText('This is not the token').waitFor();
  assert.equal(tab.page.url(), `${guarded.url}login`);
  for (const path of ['api/session', 'api/events', 'metrics']) {
    assert.equal((await fetch(guarded.url + path)).status, 401, path);
  }
  assert.deepEqual(await tab.page.context().cookies(), []);

  const linked = await browser.tab({ errors: /status of 403/ });
  assert.equal(guarded.link, guarded.url, 'a token that it was given is printed');
  await linked.page.goto(`${guarded.url}login#token=${TOKEN}`);
  await linked.live();
  assert.equal(linked.page.url(), guarded.url);
  await linked.page.goBack().catch(() => null);
  assert.doesNotMatch(linked.page.url(), new RegExp(TOKEN));
  await linked.page.goto(guarded.url);
  const [cookie, ...others] = await linked.page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path, others], [true, 'Strict', '/', []]);
  const readable = await linked.page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]));
  assert.ok(!cookie.value.includes(TOKEN) && !readable.includes(TOKEN) && !readable.includes(cookie.value), readable);
  await linked.live();

  const answer = await linked.page.evaluate(async (body) => {
    const response = await fetch('/api/steer', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Tidegate-Csrf': 'wrong' }, body });
    return [response.status, (await response.json()).code];
  }, ACTION);
  assert.deepEqual(answer, [403, 'csrf']);
  await untouched(stack);
  // What asks with the right one is let through: it is the page's own way.
  await linked.campaign('small').getByTestId('pause').click();
  await linked.confirm('pause', 'as the page does it');
  await linked.campaign('small').locator('[data-testid=pause][data-action=resume]').click();
  await linked.confirm('resume', 'as the page does it');
  await untouched(stack);
  assert.ok(!guarded.log.includes(TOKEN), 'the token is in the log');
});

promise('who may only look finds nothing to change, and who acts does so under the name of the token', async ({ stack, browser }) => {
  const looks = 'incorrect-mule-tidal-clip';
  const guarded = await stack.console([], { TIDEGATE_CONSOLE_TOKEN: `grace look ${looks}\nada act ${TOKEN}` });
  const looking = await browser.tab();
  await looking.page.goto(`${guarded.url}login#token=${looks}`);
  await looking.live();
  await looking.page.getByTestId('dead-read').waitFor();
  for (const name of ['pause-all', 'open-weights', 'open-rate', 'dead-replay']) {
    assert.equal(await looking.at(name).isVisible(), false, name);
  }
  assert.equal(await looking.campaign('small').getByTestId('pause').isVisible(), false);
  for (const key of ['p', 'w']) await looking.page.keyboard.press(key);
  assert.equal(await looking.page.locator('dialog').count(), 0);
  assert.match(await looking.at('who').innerText(), /grace/);

  const acting = await browser.tab();
  await acting.page.goto(`${guarded.url}login#token=${TOKEN}`);
  await acting.live();
  await acting.at('pause-all').click();
  assert.equal(await acting.page.getByTestId('by').count(), 0, 'nobody types another name');
  await acting.confirm('pause', 'by her token');
  await acting.page.locator('[data-testid=pause-all][data-action=resume]').click();
  await acting.confirm('resume', 'by her token');
  const made = (await stack.history()).filter(({ reason }) => reason === 'by her token');
  assert.equal(made.length, 2);
  for (const { by } of made) assert.match(by, /^ada, by the console of /);
});

/** What another page tries: all that a page can send without being asked whether it may, and more. @param {string} target */
function attack(target) {
  return `<!doctype html><title>Another page</title><iframe name="sink"></iframe>
<form method="post" enctype="text/plain" action="${target}api/steer" target="sink"><input name='${ACTION.slice(0, -1)},"x":"' value='"}'></form>
<script>
  (async () => {
    const body = ${JSON.stringify(ACTION)};
    const tries = [
      fetch('${target}api/steer', { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'Content-Type': 'text/plain' }, body }),
      fetch('${target}api/steer', { method: 'POST', credentials: 'include', headers: { 'Content-Type': 'application/json', 'X-Tidegate-Csrf': 'guess' }, body }),
      fetch('${target}api/session', { credentials: 'include' }).then((answer) => answer.text()),
      new Promise((resolve, reject) => {
        const events = new EventSource('${target}api/events', { withCredentials: true });
        events.addEventListener('state', () => resolve('read the stream'));
        events.onerror = () => { events.close(); reject(new Error('not')); };
      }),
    ];
    document.forms[0].submit();
    const ended = await Promise.allSettled(tries);
    window.got = ended.map((one) => one.status === 'fulfilled' ? (one.value.type ?? one.value) : 'nothing');
  })();
</script>`;
}

promise('another origin’s page can neither act nor read, with the cookie or without', async ({ stack, browser, console: open }) => {
  const guarded = await stack.console([], { TIDEGATE_CONSOLE_TOKEN: TOKEN });
  const server = createServer((asked, answer) => {
    const target = new URL(asked.url ?? '/', 'http://x').searchParams.get('target') ?? '';
    answer.setHeader('Content-Type', 'text/html; charset=utf-8').end(attack(target));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  // By its address it is the same site, so that the cookie goes along; by the name it is another.
  for (const host of ['127.0.0.1', ELSEWHERE]) {
    for (const [{ url }, login] of /** @type {const} */ ([[open, ''], [guarded, `login#token=${TOKEN}`]])) {
      const tab = await browser.tab({ errors: /./ });
      await tab.page.goto(`${url}${login}`);
      await tab.live();
      /** @type {[string, number][]} */
      const answers = [];
      tab.page.on('response', (response) => {
        const { origin, pathname } = new URL(response.url());
        if (`${origin}/` === url && response.request().method() === 'POST') answers.push([pathname, response.status()]);
      });
      await tab.page.goto(`http://${host}:${port}/page?target=${url}`);
      await tab.page.waitForFunction(() => 'got' in window);
      assert.deepEqual(await tab.page.evaluate(() => Reflect.get(window, 'got')), ['nothing', 'nothing', 'nothing', 'nothing']);
      await until('the form is answered', () => answers.length > 0);
      assert.ok( answers.every(([, status]) => [401, 403].includes(status)), JSON.stringify(answers));
      await untouched(stack);
      tab.complaints.length = 0;
      await tab.page.context().close();
    }
  }
  server.close();
});

promise('a console without a token answers to no name that anybody can point here, and to no proxy', async ({ browser, console }) => {
  const { port } = new URL(console.url);
  const tab = await browser.tab({ errors: /status of 40[34]|Cross-Origin-Opener-Policy/ });
  const response = await tab.page.goto(`http://${ELSEWHERE}:${port}/`);
  assert.equal(response?.status(), 403);
  const answers = async (/** @type {Record<string, string>} */ headers) => {
    const asked = request(`${console.url}api/session`, { headers }).end();
    const [answer] = await once(asked, 'response');
    answer.resume();
    return answer.statusCode;
  };
  assert.equal(await answers({ Host: `${ELSEWHERE}:${port}` }), 403);
  assert.equal(await answers({ 'X-Forwarded-For': '192.0.2.1' }), 403);
  assert.equal(await answers({ Host: `localhost:${port}` }), 200);
});

promise('every answer has the policy: nothing inline, nothing from elsewhere, no frame', async ({ browser, console }) => {
  const page = await (await fetch(console.url)).text();
  const script = /assets\/[^"]+main\.js/.exec(page)?.[0] ?? '';
  assert.equal((await fetch(console.url + script)).status, 200);
  for (const path of ['', 'login', 'api/session', script, 'nowhere']) {
    const { headers } = await fetch(console.url + path);
    const policy = headers.get('content-security-policy') ?? '';
    for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]) {
      assert.ok(policy.split('; ').includes(part), `/${path}: ${policy}`);
    }
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
  }
  // And the browser keeps to it.
  const tab = await browser.open(console, { errors: /policy|Policy/ });
  const ran = await tab.page.evaluate(() => new Promise((resolve) => {
    addEventListener('securitypolicyviolation', () => resolve('refused'), { once: true });
    const script = document.createElement('script');
    script.textContent = 'document.body.dataset.ran = "yes"';
    document.body.append(script);
  }));
  assert.deepEqual([ran, await tab.page.evaluate(() => document.body.dataset.ran)], ['refused', undefined]);
});

promise('text of others cannot be turned around: its characters for the direction of writing are shown', async ({ stack, browser, console }) => {
  const tab = await browser.open(console);
  await stack.tidegate('pause', 'small', '--reason', 'invoice\u202efdp.exe');
  await tab.at('hold').filter({ hasText: 'invoice\\u{202e}fdp.exe' }).waitFor();
  assert.doesNotMatch(await tab.page.locator('body').innerText(), /\u202e/);
  await stack.tidegate('resume', 'small', '--reason', 'seen');
});
