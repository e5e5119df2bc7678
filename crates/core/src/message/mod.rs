//! A message from its queue to its end: whether it is valid, its identity, the meaning of SES's answer, its way then.

pub mod channel;
pub mod compression;
pub mod dead_letter;
pub mod deduplication;
pub mod email;
pub mod exclusions;
pub mod identity;
pub mod outcome;
pub mod retry;
pub mod ses_request;
pub mod text_message;
pub mod trace;
