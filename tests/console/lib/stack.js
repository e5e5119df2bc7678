// One local stack for all tests, and what is done to it beside the console: the command, SES, SQS.

import assert from 'node:assert/strict';
import { access, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { Console } from './console.js';
import { Program, run } from './process.js';
import { until } from './wait.js';

export const CHECKOUT = path.resolve(import.meta.dirname, '../../..');
const BIN = process.env.TIDEGATE_BIN_DIR ?? path.join(CHECKOUT, 'target/local');
const PYTHON = process.env.TIDEGATE_PYTHON ?? path.join(CHECKOUT, '.tools/local/bin/python');
const TIDEGATE = path.join(BIN, 'tidegate');
const DEVSTACK = path.join(BIN, 'devstack');

/** Who runs the commands and the consoles, as the history names it. */
export const OPERATOR = 'grace';
const ENV = { USER: OPERATOR, NO_COLOR: '1', TIDEGATE_CONSOLE_TOKEN: undefined };

/** Mails of each campaign: enough that some wait as long as the tests take. */
export const BIG = 3_600;
const SMALL = 600;
const DAILY_QUOTA = 50_000;

export class Stack {
  /** @param {string} folder @param {Program} local @param {string} sandbox @param {string} endpoint */
  constructor(folder, local, sandbox, endpoint) {
    this.folder = folder;
    this.local = local;
    this.sandbox = sandbox;
    this.endpoint = endpoint;
    this.on = ['--local', '--local-runs', folder];
    /** @type {Console[]} */
    this.consoles = [];
  }

  static async start() {
    for (const needed of [TIDEGATE, DEVSTACK, PYTHON]) {
      await access(needed).catch(() => assert.fail(`${needed} is missing: \`make test-rust\` or \`make binaries\` makes it`));
    }
    const folder = await mkdtemp(path.join(tmpdir(), 'tidegate-console-'));
    const run = path.join(folder, 'run');
    await mkdir(run);
    const local = new Program(DEVSTACK, ['--root', CHECKOUT, '--python', PYTHON, '--bin-dir', BIN, '--out', run,
      '--big', `${BIG}`, '--small', `${SMALL}`, '--keep-running', '--parameter', 'Deduplication=resend', '--parameter', 'Unsent=release'], ENV);
    const sandbox = await local.says(({ out, err }) => /Mailbox: (http\S+)/.exec(out + err)?.[1], 300);
    const { endpoint } = JSON.parse(await readFile(path.join(run, 'stack.json'), 'utf8'));
    const stack = new Stack(run, local, sandbox, endpoint);
    await stack.ses({ daily_quota: DAILY_QUOTA });
    await until('the stack sends', async () => (await stack.status()).counters.sent > 0, 180);
    return stack;
  }

  /** @param {boolean} keep whether the logs stay */
  async stop(keep) {
    await this.endConsoles();
    await this.local.end('SIGINT');
    if (keep) process.stderr.write(`the logs of this local AWS are in ${path.dirname(this.folder)}; its program said at last\n${(this.local.out + this.local.err).slice(-2000)}\n`);
    else await rm(path.dirname(this.folder), { recursive: true, force: true });
  }

  /** Starts a console. @param {string[]} [options] @param {NodeJS.ProcessEnv} [env] @param {string[]} [on] */
  async console(options = [], env = {}, on = this.on) {
    const started = new Console(TIDEGATE, [...on, ...options], { ...ENV, ...env });
    this.consoles.push(started);
    await started.start('127.0.0.1:0');
    return started;
  }

  /** Ends all consoles but those that stay. @param {Console[]} stay */
  async endConsoles(...stay) {
    const ended = this.consoles.filter((one) => !stay.includes(one));
    this.consoles = stay;
    for (const one of ended) await one.stop('SIGTERM');
  }

  /** Runs `tidegate`, which must end well. @param {string[]} args */
  async tidegate(...args) {
    const { code, out, err } = await run(TIDEGATE, [...args, ...this.on], ENV);
    assert.equal(code, 0, `tidegate ${args.join(' ')}: ${out}${err}`);
    return out;
  }

  /** A call to the local CloudWatch. @param {Record<string, string>} parameters */
  async cloudwatch(parameters) {
    const body = new URLSearchParams({ Version: '2010-08-01', ...parameters });
    const region = 'Credential=test/20260101/us-east-1/monitoring/aws4_request';
    const headers = { Authorization: `AWS4-HMAC-SHA256 ${region}, SignedHeaders=host, Signature=none` };
    const answer = await fetch(this.endpoint, { method: 'POST', body, headers });
    const text = await answer.text();
    assert.ok(answer.ok, text);
    return text;
  }

  async status() {
    return JSON.parse(await this.tidegate('status', '--json'));
  }

  /** @returns {Promise<{at: string, by: string, action: string, campaign: string | null, detail: string, reason: string}[]>} newest first */
  async history() {
    return JSON.parse(await this.tidegate('history', '--json'));
  }

  /** Changes the sandbox's SES. @param {object} settings */
  async ses(settings) {
    const response = await fetch(`${this.sandbox}/_sandbox/config`, { method: 'PATCH', body: JSON.stringify(settings) });
    assert.ok(response.ok, await response.text());
  }

  /** Ends what a test that failed has begun, so that the next can show what it is there for. */
  async calm() {
    await this.ses({ faults: [] });
    for (const { reason, campaign } of (await this.status()).holds) {
      const what = campaign ? [campaign] : [];
      await this.tidegate(...(reason === 'paused' ? ['resume', ...what] : ['lift', reason, ...what, '--yes']), '--reason', 'the test has ended');
    }
  }

  /** The recipients of all mails that arrived, by mail. @returns {Promise<string[]>} */
  async arrived() {
    const mails = [];
    for (let after = 0; ;) {
      const response = await fetch(`${this.sandbox}/_sandbox/mails?after=${after}&limit=10000`);
      const page = /** @type {{seq: number, to: string[]}[]} */ (await response.json());
      mails.push(...page.map(({ to }) => to[0]));
      const last = page.at(-1);
      if (!last) return mails;
      after = last.seq;
    }
  }

  /** Puts a message onto a queue, whatever it is: not even `tidegate send` would. @param {string} queue @param {string} body */
  async put(queue, body) {
    const sqs = (/** @type {string} */ action, /** @type {object} */ input) => fetch(this.endpoint, {
      method: 'POST', body: JSON.stringify(input),
      headers: {
        'Content-Type': 'application/x-amz-json-1.0', 'X-Amz-Target': `AmazonSQS.${action}`,
        Authorization: 'AWS4-HMAC-SHA256 Credential=test/20261122/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=none',
      },
    });
    const { QueueUrls } = /** @type {{QueueUrls: string[]}} */ (await (await sqs('ListQueues', {})).json());
    const url = QueueUrls.find((one) => one.endsWith(queue));
    const response = await sqs('SendMessage', { QueueUrl: url, MessageBody: body });
    assert.ok(response.ok, await response.text());
  }
}
