//! From options to the stack.

use super::args::StackArgs;
use super::error::StackError;
use super::{Stack, find, local};

impl StackArgs {
    /// Finds the stack.
    ///
    /// # Errors
    /// [`StackError`].
    pub async fn open(&self) -> Result<Stack, StackError> {
        if !self.local {
            return find::stack(&self.stack, find::clients(self).await, None).await;
        }
        let (newest_answering, folder) = local::newest_answering(&self.local_runs).await?;
        find::stack(&newest_answering.stack, newest_answering.clients().await, Some(folder)).await
    }
}
