// A headless Chromium, and tabs in which nothing may go wrong unnoticed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';

import { chromium } from 'playwright-core';

import { CHECKOUT } from './stack.js';
import { PATIENCE_S, until } from './wait.js';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('./console.js').Console} Console */

/** A name that a name server of somebody else's points at this machine. */
export const ELSEWHERE = 'console.example';
export const SHOTS = path.join(CHECKOUT, '.local/console-shots');

/** A folder whose files stand for those that are built into the program: to try a page without building it in. */
const ASSETS = process.env.TIDEGATE_CONSOLE_ASSETS;

/** @param {import('playwright-core').BrowserContext} context @param {string} folder */
async function notBuiltIn(context, folder) {
  await context.route('**/assets/**', (route) => route.fulfill({ path: path.join(folder, new URL(route.request().url()).pathname.slice('/assets/'.length)) }));
  for (const [at, file] of [['/', 'index.html'], ['/login', 'login.html']]) {
    await context.route((url) => url.pathname === at && url.hostname !== ELSEWHERE, async (route) => {
      const response = await route.fetch({ maxRedirects: 0 });
      await route.fulfill(response.ok() ? { response, path: path.resolve(folder, file) } : { response });
    });
  }
}

function executable() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const find = 'command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome';
  return execFileSync('sh', ['-c', find], { encoding: 'utf8' }).trim();
}

export class Browser {
  /** @param {import('playwright-core').Browser} browser */
  constructor(browser) {
    this.browser = browser;
    /** @type {Tab[]} */
    this.tabs = [];
  }

  static async launch() {
    const quiet = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
    // Chromium's own sandbox does not work for root.
    const root = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    const args = [...root, ...quiet, `--host-resolver-rules=MAP ${ELSEWHERE} 127.0.0.1`];
    return new Browser(await chromium.launch({ executablePath: executable(), args, timeout: 120_000 }));
  }

  /**
   * A tab of its own: no other's cookies, no other's storage. `errors`: what it may complain of.
   * @param {{width?: number, height?: number, dark?: boolean, errors?: RegExp}} [how]
   */
  async tab(how = {}) {
    const { width = 1440, height = 900, dark = false } = how;
    const context = await this.browser.newContext({
      viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC',
    });
    context.setDefaultTimeout(PATIENCE_S * 1000);
    await context.addInitScript(() => addEventListener('securitypolicyviolation', (event) => {
      console.error(`against the policy: ${event.violatedDirective} ${event.blockedURI}`);
    }));
    if (ASSETS) await notBuiltIn(context, ASSETS);
    const tab = new Tab(await context.newPage(), how.errors);
    this.tabs.push(tab);
    return tab;
  }

  /** A tab with the page of `console`, once it shows the stack. @param {Console} console @param {Parameters<Browser['tab']>[0]} [how] */
  async open(console, how) {
    const tab = await this.tab(how);
    await tab.page.goto(console.url);
    await tab.live();
    return tab;
  }

  /** Closes all tabs but those that stay, and says what went wrong in any. */
  async closeTabs() {
    const complaints = this.tabs.flatMap((tab) => tab.complaints);
    for (const tab of this.tabs) await tab.page.context().close();
    this.tabs = [];
    assert.deepEqual(complaints, [], 'a page complained');
  }

  /** What all tabs show now, for whoever looks why a test failed. @param {string} name */
  async keep(name) {
    await mkdir(SHOTS, { recursive: true });
    const file = path.join(SHOTS, `failed-${name.replace(/\W+/g, '-').slice(0, 60)}`);
    for (const [at, { page }] of this.tabs.entries()) await page.screenshot({ path: `${file}-${at}.png` }).catch(() => {});
    process.stderr.write(`what the pages showed: ${file}-*.png\n`);
  }
}

export class Tab {
  /** @type {string[]} */
  complaints = [];

  /** @param {Page} page @param {RegExp} [errors] */
  constructor(page, errors) {
    this.page = page;
    const complain = (/** @type {string} */ text) => {
      if (!errors?.test(text)) this.complaints.push(`${page.url()}: ${text}`);
    };
    page.on('console', (said) => {
      if (said.type() === 'error') complain(`${said.text()} (${said.location().url})`);
    });
    page.on('pageerror', (error) => complain(String(error.stack ?? error)));
    page.on('crash', () => complain('the page crashed'));
    page.on('request', (request) => {
      const { protocol, origin } = new URL(request.url());
      const own = new URL(request.isNavigationRequest() ? request.url() : page.url()).origin;
      if (protocol !== 'data:' && protocol !== 'blob:' && origin !== own) complain(`a request to ${request.url()}`);
    });
  }

  /** @param {string} testid */
  at(testid) {
    return this.page.getByTestId(testid);
  }

  /** @param {string} name */
  campaign(name) {
    return this.at(`campaign-${name}`);
  }

  /** Waits until the page is connected, and shows figures. */
  async live() {
    await this.page.locator('[data-testid=connection][data-state=live]').waitFor();
    await this.page.locator('[data-testid^=campaign-]').first().waitFor();
  }

  /** Waits for figures that were read after this was called. */
  async anew() {
    for (let look = 0; look < 2; look++) {
      const before = (await this.figures()).at;
      await until('newer figures', async () => (await this.figures()).at !== before);
    }
  }

  /** All figures of one frame. */
  figures() {
    return this.page.evaluate(() => {
      /** @param {ParentNode} root @param {string} testid */
      const value = (root, testid) => {
        const element = /** @type {HTMLElement | null} */ (root.querySelector(`[data-testid=${testid}]`));
        const text = element?.dataset.value ?? '';
        return text === '' ? null : Number(text);
      };
      /** @param {string} name */
      const legend = (name) => [...document.querySelectorAll('#legend li')].find((line) => line.querySelector('.legend-name')?.textContent === name)?.querySelector('.legend-value')?.textContent;
      return {
        at: document.querySelector('[data-testid=connection]')?.getAttribute('data-at'),
        quota: legend('Quota'),
        forecast: legend('Forecast'),
        rate: value(document, 'rate'),
        daily: value(document, 'quota'),
        waiting: value(document, 'waiting-all'),
        refused: value(document, 'refused'),
        dead: value(document, 'dead-count'),
        campaigns: [...document.querySelectorAll('[data-testid^=campaign-]')].map((row) => ({
          name: row.getAttribute('data-testid')?.slice('campaign-'.length),
          sent: value(row, 'sent'),
          waiting: value(row, 'waiting'),
          weight: value(row, 'weight'),
          share: parseFloat(row.querySelector('[data-testid=weight]')?.textContent?.slice('of '.length) ?? ''),
          state: row.querySelector('[data-testid=state]')?.getAttribute('data-value'),
        })),
      };
    });
  }

  /** The dialog of this name, once it is open. @param {string} name */
  async dialog(name) {
    const dialog = this.page.locator(`dialog[open][data-testid=dialog-${name}]`);
    await dialog.waitFor();
    return dialog;
  }

  /** Gives a reason in the open dialog, confirms it, and waits until it is done. @param {string} name @param {string} reason @param {string} [by] */
  async confirm(name, reason, by) {
    const dialog = await this.dialog(name);
    await dialog.getByTestId('reason').fill(reason);
    if (by !== undefined) await dialog.getByTestId('by').fill(by);
    await dialog.getByTestId('confirm').click();
    await dialog.waitFor({ state: 'detached' });
  }

  /** Has the dead letters read until one alone is listed: those that were replayed stay listed until then. */
  async oneLetter() {
    await until('one letter is listed', async () => {
      if (await this.at('letter-link').count() === 1) return true;
      await this.at('dead-read').click();
      return false;
    });
  }

  /** Has the dead letters read until they are shown: another reader may hide them for half a minute. */
  async readDeadLetters() {
    await until('the dead letters are read', async () => {
      if (await this.at('dead-group').count() > 0) return true;
      await this.at('dead-read').click();
      await this.page.locator('[data-testid=dead-read][aria-busy=false]').waitFor();
      return false;
    });
  }

  /** The titles and details in the list of events. */
  async events() {
    return this.page.getByTestId('event').evaluateAll((entries) => entries.map((entry) => ({
      kind: entry.getAttribute('data-kind') ?? '',
      title: entry.querySelector('.event-title')?.textContent ?? '',
      detail: entry.querySelector('.event-detail')?.textContent ?? '',
    })));
  }
}
