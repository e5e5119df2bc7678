//! The views that people have of a stack: status, top, console. `tidegate` and `devstack` show the same.

pub mod console;
pub mod status;
pub mod top;
