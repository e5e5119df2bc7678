//! The ports on what is outside: AWS's services, and a server of the Redis protocol.

pub mod aws;
pub mod redis;
