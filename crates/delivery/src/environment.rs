//! All ports together, as one argument.

use crate::ports::{Account, Clock, DeferralStore, Entropy, Ledger, Mailer, Marks, Queues};

/// The ports that a poller needs.
pub trait Environment {
    /// The queues.
    type Queues: Queues;
    /// SES, sending.
    type Mailer: Mailer;
    /// SES, the account.
    type Account: Account;
    /// Claim, control record, reports, marks.
    type Ledger: Ledger + Marks;
    /// Time.
    type Clock: Clock;
    /// Randomness.
    type Entropy: Entropy;
    /// Deferred mail.
    type DeferralStore: DeferralStore;

    /// The queues.
    fn queues(&self) -> &Self::Queues;
    /// SES, sending.
    fn mailer(&self) -> &Self::Mailer;
    /// SES, the account.
    fn account(&self) -> &Self::Account;
    /// Claim, control record, reports.
    fn ledger(&self) -> &Self::Ledger;
    /// Time.
    fn clock(&self) -> &Self::Clock;
    /// Randomness.
    fn entropy(&self) -> &Self::Entropy;
    /// Deferred mail; none where none is deferred.
    fn deferral(&self) -> Option<&Self::DeferralStore>;
}

/// An [`Environment`] put together from its ports.
#[derive(Clone, Debug)]
pub struct Ports<Q, M, A, L, C, E, S> {
    /// The queues.
    pub queues: Q,
    /// SES, sending.
    pub mailer: M,
    /// SES, the account.
    pub account: A,
    /// Claim, control record, reports.
    pub ledger: L,
    /// Time.
    pub clock: C,
    /// Randomness.
    pub entropy: E,
    /// Deferred mail; none where none is deferred.
    pub deferral: Option<S>,
}

impl<Q, M, A, L, C, E, S> Environment for Ports<Q, M, A, L, C, E, S>
where
    Q: Queues,
    M: Mailer,
    A: Account,
    L: Ledger + Marks,
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
