/// What a message must pass beside getting a slot, such as its recipient domain's limit.
pub trait Gates<T> {
    /// Whether the message may start at the account's slot `slot`.
    fn admits(&self, ticket: T, slot: u64) -> bool;

    /// The message is given the slot `slot`, and spends what it needs, whether it is sent or not.
    fn take(&mut self, ticket: T, slot: u64);
}

/// No gate at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl<T> Gates<T> for Open {
    fn admits(&self, _: T, _: u64) -> bool {
        true
    }

    fn take(&mut self, _: T, _: u64) {}
}
