// Programs that a test starts: what they said, their end, and none that outlives the test.

import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** @typedef {import('node:child_process').ChildProcess} Child */

/** @type {Set<Child>} */
const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGTERM');
});
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, () => process.exit(1));

export class Program {
  out = '';
  err = '';

  /** @param {string} file @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
  constructor(file, args, env = {}) {
    this.name = [file.split('/').at(-1), args[0]].join(' ');
    this.child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
    running.add(this.child);
    this.child.stdout.on('data', (data) => {
      this.out += data;
    });
    this.child.stderr.on('data', (data) => {
      this.err += data;
    });
    /** @type {Promise<number>} */
    this.ended = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      this.child.on('close', (code, signal) => {
        running.delete(this.child);
        resolve(code ?? (signal === 'SIGKILL' ? 137 : 143));
      });
    });
    this.ended.catch(() => {});
  }

  /** What `find` finds in what it said; fails where it ends before. @template T @param {(program: this) => T | null | undefined} find @param {number} seconds @returns {Promise<T>} */
  async says(find, seconds) {
    const end = AbortSignal.timeout(seconds * 1000);
    for (;;) {
      const found = find(this);
      if (found) return found;
      const more = [this.child.stdout, this.child.stderr].map((from) => once(from, 'data', { signal: end }));
      const code = await Promise.race([...more, this.ended.then((code) => [code])]).catch(() => {
        throw new Error(`${this.name} did not say it within ${seconds} s\n${this.out}\n${this.err}`);
      });
      for (const one of more) one.catch(() => {});
      if (!running.has(this.child) && !find(this)) throw new Error(`${this.name} ended with ${code}\n${this.out}\n${this.err}`);
    }
  }

  /** As it stands: it answers nothing, and its connections stay open. */
  freeze() {
    this.child.kill('SIGSTOP');
    return () => this.child.kill('SIGCONT');
  }

  /** @param {NodeJS.Signals} signal @returns {Promise<number>} */
  end(signal) {
    this.child.kill(signal);
    return this.ended;
  }
}

/** Runs a program to its end. @param {string} file @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
export async function run(file, args, env) {
  const program = new Program(file, args, env);
  const code = await program.ended;
  return { code, out: program.out, err: program.err };
}
