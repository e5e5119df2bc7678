//! The SES v2 API: what it reads, what it refuses, what it answers.

mod error;
mod mime;
mod request;

pub(crate) use error::SesError;
pub(crate) use request::{MOST_BYTES, parse_send_email};
