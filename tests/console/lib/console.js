// A console: started, ended as the system may end it, started again where it was.

import { Program } from './process.js';

export class Console {
  /** @type {Program | null} */
  #program = null;
  url = '';
  link = '';

  /** @param {string} tidegate @param {string[]} options @param {NodeJS.ProcessEnv} env */
  constructor(tidegate, options, env) {
    this.tidegate = tidegate;
    this.options = options;
    this.env = env;
  }

  get origin() {
    return new URL(this.url).origin;
  }

  /** @param {string} listen */
  async start(listen) {
    this.#program = new Program(this.tidegate, ['console', '--listen', listen, '--json', ...this.options], this.env);
    const said = await this.#program.says(({ out }) => /^\{[^]*\}\s*$/.exec(out)?.[0], 60);
    ({ url: this.url, link: this.link } = JSON.parse(said));
  }

  /** Starts it again at its address. @param {string[]} [options] others than before */
  async again(options = this.options) {
    this.options = options;
    await this.start(new URL(this.url).host);
  }

  /** What it logged. */
  get log() {
    return this.#program?.err ?? '';
  }

  /** Lets it answer nothing until what is returned is called. */
  freeze() {
    return this.#program?.freeze() ?? (() => false);
  }

  /** @param {NodeJS.Signals} signal */
  async stop(signal) {
    const code = await this.#program?.end(signal);
    this.#program = null;
    return code;
  }
}
