// The wire's shapes, for the type checker alone.

/**
 * @typedef {'bad' | 'warn' | 'good' | 'info'} Tone
 *
 * @typedef {{stack: string, region: string | null, local: boolean, csrf: string, operator: string | null,
 *   name: string | null, role: 'look' | 'act', addresses_shown: boolean, token_required: boolean, ses_price: number | null, words: Words, version: string}} Session
 * @typedef {typeof import('./words.js').say} Words
 *
 * @typedef {{seq: number, at: string, kind: string, campaign: string | null, title: string,
 *   detail: string | null, tone: Tone}} Change
 *
 * @typedef {{key: string, at: string, kind: string, campaign: string | null, title: string,
 *   detail: string | null, tone: Tone, seq: number}} Entry
 *
 * @typedef {{visible: number | null, in_flight: number | null, delayed: number | null}} Depth
 *
 * @typedef {{name: string, rate: number | null, share: number | null, age_s: number | null, eta_s: number | null,
 *   sent: number, waiting: number, progress: number | null}} Row
 *
 * @typedef {{campaign: string | null, reason: string, what: string, detail: string | null, since: string | null,
 *   until: string | null, lifted_by: string | null}} Hold
 *
 * @typedef {{quota: number, sent: number, left_for_campaigns: number | null}} Daily
 *
 * @typedef {{account_per_second: number | null, configured_cap: number | null, operator_cap: number | null,
 *   factor: number | null, in_force: number | null, slots_per_second: number | null,
 *   daily: Daily | null, spend_limit?: number, sending_enabled: boolean | null}} Quota
 *
 * @typedef {{name: string, configured_weight: number, weight: number, share: number | null, sent: number,
 *   refused: number, dead: number, feedback: {sent: number, bounced: number, complained: number, suppressed: number, dropped: number} | null,
 *   backlog: Depth | null, held: boolean}} Campaign
 *
 * @typedef {{key: string, limit: string, per_second: number | null, closed: boolean, opens_at: string | null, waiting: number | null}} Limit
 *
 * @typedef {{campaign: string, name: string, stage: string, host: string, began: string, rows: number, enqueued: number,
 *   waiting: number, sent: number, failed: number, cancelled: number, to_come: number, rest?: string[]}} Run
 *
 * @typedef {{at: string, by: string, action: string, campaign: string | null, detail: string | null,
 *   reason: string | null}} Steering
 *
 * @typedef {{stack: string, at: string, quota: Quota,
 *   serving: {state: string, last_window: string | null},
 *   breaker: {state: string, since: string | null, until: string | null},
 *   holds: Hold[], campaigns: Campaign[],
 *   level: {level: string, since: string | null} | null,
 *   limits: Limit[] | null, waiting: {express: number, campaigns: number, merge: number, limits: number, rows: number},
 *   runs: Run[],
 *   queues: {[name: string]: Depth | undefined},
 *   counters: {[name: string]: number | undefined},
 *   changes: Steering[] | null}} Status
 *
 * @typedef {{alarms: number, ringing: {name: string, since: string | null, why: string}[],
 *   failed: {function: string, errors: number, throttles: number}[]}} Monitor
 *
 * @typedef {{at: string, failed: string | null, rate: number | null, rows: Row[],
 *   express: {per_second: number, waited_s: number | null, p99_s: number | null} | null,
 *   refused: number | null,
 *   monitor: {failed: string | null, report: Monitor | null},
 *   status: Status}} Figures
 *
 * @typedef {{t: number[], rate: (number | null)[], quota: (number | null)[],
 *   campaigns: {[name: string]: (number | null)[]}}} Series
 *
 * @typedef {{span: string, series: Series, changes: Change[]}} History
 *
 * @typedef {{state: string, why: string | null, made_at: string | null, from_t: number | null,
 *   bucket_s: number | null, per_second: {[name: string]: number[]} | null,
 *   ends_at: string | null, earliest: string | null, latest: string | null, limited_by: string | null,
 *   campaigns: {name: string, ends_at: string | null, earliest: string | null, latest: string | null,
 *     left: number | null}[] | null,
 *   cost: {total: number, ses: number} | null,
 *   warnings: string[] | null, assumptions: string[] | null}} Forecast
 *
 * @typedef {{key: string, code: string | null, letters: number, perhaps_sent: number, oldest: string | null, newest: string | null,
 *   said: string | null}} DeadGroup
 *
 * @typedef {{since: string, age_s: number | null, message_id: string, id: string | null, campaign: string | null, to: string[] | null,
 *   code: string | null, http_status: number | null, attempts: number | null, doubt: string,
 *   foreign: string | boolean | null}} Letter
 *
 * @typedef {Letter & {said: string | null, identity: string | null, enqueued_at: string | null,
 *   first_attempt_at: string | null, last_attempt_at: string | null, bytes: number, body: string | null}} LetterDetails
 *
 * @typedef {{read_at: string, whole: boolean, read: number, unread: number | null, groups: DeadGroup[],
 *   campaigns: {[name: string]: DeadGroup[]}, letters: Letter[]}} Dead
 *
 * @typedef {{running: boolean, sent: number, of: number, waits: boolean, said: string | null,
 *   error: string | null}} Replay
 *
 * @typedef {{review: string, expires_s: number, filter: string, guarded: boolean, whole: boolean,
 *   groups: {campaign: string | null, code: string | null, letters: number, to_send: number,
 *     sent_already: number, perhaps_sent: number, cannot: number}[],
 *   refusals: {why: string, letters: number}[], to_send: number, to_drop: number,
 *   per_second: number | null, takes_s: number | null}} Review
 *
 * @typedef {{changed: boolean, at: string, by: string, action: string, campaign: string | null,
 *   detail: string | null, reason: string, still_held: string[] | null, in_force_within_s: number | null,
 *   recorded: boolean}} Steered
 *
 * @typedef {{id: string, campaign: string | null, verdict: string, summary: string, lets_go: string | null,
 *   until: string | null,
 *   if_it_waits: {verdict: string, what: string, lets_go: string | null, until: string | null} | null,
 *   limits: {verdict: string, what: string, lets_go: string | null, until: string | null}[] | null,
 *   facts: {of: string, what: string}[] | null, ruled_out: {of: string, what: string}[] | null,
 *   not_known: string[] | null}} Why
 *
 * @typedef {{figures: Figures | null, series: Series | null, recent: Change[] | null, forecast: Forecast | null,
 *   dead: Dead | null, replay: Replay | null}} State
 *
 * @typedef {'connecting' | 'live' | 'reconnecting' | 'asleep'} Connection
 */

export {};
