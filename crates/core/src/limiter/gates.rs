/// A condition that a message must meet besides getting a slot, such as the limit of its recipient
/// domain.
pub trait Gates<T> {
    /// Whether the message `ticket` may start at slot number `slot` of the account.
    fn admits(&self, ticket: T, slot: u64) -> bool;

    /// Notes that the message `ticket` got slot number `slot`. It spends what it needs of the limit
    /// even if it is not sent in the end.
    fn take(&mut self, ticket: T, slot: u64);
}

/// A gate that admits every message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl<T> Gates<T> for Open {
    fn admits(&self, _: T, _: u64) -> bool {
        true
    }

    fn take(&mut self, _: T, _: u64) {}
}
