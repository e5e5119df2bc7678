//! Calls that list, tag and delete queues.

use std::sync::PoisonError;

use tidegate_delivery::ports::Directory as _;

use super::Service;
use crate::sandbox::sqs::error::SqsError;
use crate::sandbox::sqs::wire::{
    EmptyAnswer, ListAnswer, ListRequest, QueueRequest, TagRequest, TagsAnswer, UntagRequest,
};

/// Queues in a list that does not say how many it wants.
const USUAL: usize = 1_000;

impl Service {
    /// Queues by the beginning of their names; the next page begins after the token.
    pub(super) fn list(&self, request: &ListRequest) -> ListAnswer {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let after = |name: &String| request.next_token.as_ref().is_none_or(|token| name > token);
        let attribute_names =
            made.keys().filter(|name| name.starts_with(&request.queue_name_prefix));
        let mut attribute_names = attribute_names.filter(|name| after(name)).peekable();
        let page = request.max_results.unwrap_or(USUAL);
        let listed: Vec<&String> = attribute_names.by_ref().take(page).collect();
        let more = attribute_names.peek().is_some();
        ListAnswer {
            next_token: listed.last().filter(|_| more).map(|name| (*name).clone()),
            queue_urls: listed.into_iter().map(|name| self.url_named(name)).collect(),
        }
    }

    pub(super) async fn tags(&self, request: QueueRequest) -> Result<TagsAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        Ok(TagsAnswer { tags: self.queues.tags(&queue).await? })
    }

    pub(super) fn tag(&self, request: &TagRequest) -> Result<EmptyAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        for (name, value) in &request.tags {
            self.queues.tag(&queue, name, Some(value));
        }
        Ok(EmptyAnswer {})
    }

    pub(super) fn untag(&self, request: &UntagRequest) -> Result<EmptyAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        for name in &request.tag_keys {
            self.queues.tag(&queue, name, None);
        }
        Ok(EmptyAnswer {})
    }

    pub(super) fn delete_queue(&self, request: &QueueRequest) -> Result<EmptyAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(queue.as_str());
        self.queues.remove(&queue);
        Ok(EmptyAnswer {})
    }
}
