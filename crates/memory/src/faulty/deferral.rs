use tidegate_core::deferral::{ObjectName, Progress};
use tidegate_delivery::ports::{DeferralStore, DeferredPage, PortError, Version};

use super::{Faulty, Operation};

impl<S: DeferralStore> DeferralStore for Faulty<S> {
    async fn put(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<(), PortError> {
        self.call(Operation::PutDeferred, &name.to_string(), self.inner.put(name, bytes)).await
    }

    async fn list(&self, after: Option<&str>) -> Result<DeferredPage, PortError> {
        self.call(Operation::ListDeferred, "", self.inner.list(after)).await
    }

    async fn get(&self, name: &ObjectName) -> Result<Vec<u8>, PortError> {
        self.call(Operation::GetDeferred, &name.to_string(), self.inner.get(name)).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), PortError> {
        self.call(Operation::DeleteDeferred, &name.to_string(), self.inner.delete(name)).await
    }

    async fn progress(&self, name: &ObjectName) -> Result<Option<(Progress, Version)>, PortError> {
        self.call(Operation::ReadProgress, &name.to_string(), self.inner.progress(name)).await
    }

    async fn set_progress(
        &self,
        name: &ObjectName,
        progress: &Progress,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        let act = self.inner.set_progress(name, progress, stands);
        self.call(Operation::SetProgress, &name.to_string(), act).await
    }

    async fn forget_progress(&self, name: &ObjectName) -> Result<(), PortError> {
        let act = self.inner.forget_progress(name);
        self.call(Operation::ForgetProgress, &name.to_string(), act).await
    }
}
