//! Raises the limit of open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A connection has an end here, or two: a shell's usual 1,024 files are too few for many.
pub(crate) fn allow(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let is_enough = limit.maximum.is_none_or(|most| most >= wanted);
        assert!(is_enough, "this needs {wanted} open files: see `ulimit -Hn`");
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap();
    }
}
