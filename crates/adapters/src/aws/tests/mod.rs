//! Services for the adapters' tests: one without a network, and one on the loopback interface.

pub(in crate::aws) mod fake;
pub(in crate::aws) mod loopback;
