//! The exclusion list that a Lambda environment keeps from window to window.

use std::cell::RefCell;
use std::sync::Arc;

use tidegate_core::exclusions::ExclusionList;

/// The list as it was last read, and its version; none before it was read. It needs 8 bytes for each address.
pub(super) type ExclusionCache = RefCell<Option<(u64, Arc<ExclusionList>)>>;
