//! The production scheduler and poller on the fakes, under simulated time.

mod adaptive;
mod breaker;
mod bucket;
mod campaigns;
mod cancel;
mod compressed;
mod control;
mod crash;
mod daily;
mod dead;
mod deduplication;
mod deferral;
mod deletes;
mod domains;
mod exclusions;
mod express;
mod fallback;
mod faults;
mod feedback;
mod flow;
mod forged;
mod idle;
mod incidents;
mod ledger;
mod limits;
mod marks;
mod memory;
mod operator;
mod operator_site;
mod outcomes;
mod priorities;
mod queues;
mod rate;
mod raw;
mod recipients;
mod refusals;
mod sampling;
mod seeds;
mod tags;
mod tenants;
mod texts;
mod ticks;
mod why;

/// Both modes, by whether there is a merge queue.
const MODES: [bool; 2] = [true, false];
const MS: fn(u64) -> std::time::Duration = std::time::Duration::from_millis;
