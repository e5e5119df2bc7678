//! The relay: takes mail as SES and a mail server do, and puts it onto a stack's queues.

mod smtp;
mod submission;
