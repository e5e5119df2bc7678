//! One argument that carries all ports of a poller.

use crate::ports::{
    Account, Clock, DeferralStore, Entropy, Exclusions, Ledger, Mailer, Marks, Queues,
};

/// The ports that a poller needs, as types and as values.
pub trait Environment {
    /// SQS: campaign queues, merge queue, express queue, limit queues and dead-letter queue.
    type Queues: Queues;
    /// The mailer that sends mail through SES.
    type Mailer: Mailer;
    /// Asks SES for the account's quota and state.
    type Account: Account;
    /// Claims, control record, reports, deduplication's marks, and the exclusion list.
    type Ledger: Ledger + Marks + Exclusions;
    /// Access to the wall clock and the monotonic clock.
    type Clock: Clock;
    /// The source of random tokens and jitter.
    type Entropy: Entropy;
    /// The S3 bucket, or its stand-in, for deferred mail.
    type DeferralStore: DeferralStore;

    /// The queues of every kind.
    fn queues(&self) -> &Self::Queues;
    /// The mailer, which sends through SES.
    fn mailer(&self) -> &Self::Mailer;
    /// The account, for quota and state.
    fn account(&self) -> &Self::Account;
    /// The ledger, which also keeps deduplication's marks.
    fn ledger(&self) -> &Self::Ledger;
    /// The wall clock and the monotonic clock.
    fn clock(&self) -> &Self::Clock;
    /// The source of random tokens and jitter.
    fn entropy(&self) -> &Self::Entropy;
    /// The store of deferred mail; `None` if deferral is off.
    fn deferral(&self) -> Option<&Self::DeferralStore>;
}

/// An [`Environment`] made of one value per port.
#[derive(Clone, Debug)]
pub struct Ports<Q, M, A, L, C, E, S> {
    /// The queues of every kind.
    pub queues: Q,
    /// The mailer, which sends through SES.
    pub mailer: M,
    /// The account, for quota and state.
    pub account: A,
    /// The ledger, which also keeps deduplication's marks.
    pub ledger: L,
    /// The wall clock and the monotonic clock.
    pub clock: C,
    /// The source of random tokens and jitter.
    pub entropy: E,
    /// The store of deferred mail; `None` if deferral is off.
    pub deferral: Option<S>,
}

impl<Q, M, A, L, C, E, S> Environment for Ports<Q, M, A, L, C, E, S>
where
    Q: Queues,
    M: Mailer,
    A: Account,
    L: Ledger + Marks + Exclusions,
    C: Clock,
    E: Entropy,
    S: DeferralStore,
{
    type Queues = Q;
    type Mailer = M;
    type Account = A;
    type Ledger = L;
    type Clock = C;
    type Entropy = E;
    type DeferralStore = S;

    fn queues(&self) -> &Q {
        &self.queues
    }
    fn mailer(&self) -> &M {
        &self.mailer
    }
    fn account(&self) -> &A {
        &self.account
    }
    fn ledger(&self) -> &L {
        &self.ledger
    }
    fn clock(&self) -> &C {
        &self.clock
    }
    fn entropy(&self) -> &E {
        &self.entropy
    }
    fn deferral(&self) -> Option<&S> {
        self.deferral.as_ref()
    }
}
