//! The body of a message, shared between its clones.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A message's body as text. A clone shares it: a megabyte is not copied from step to step.
///
/// ```
/// use tidegate_delivery::ports::Body;
/// let body = Body::from("hello");
/// assert_eq!((&*body, body.len()), ("hello", 5));
/// ```
#[derive(Clone)]
pub struct Body {
    text: Arc<String>,
    /// Dropped with the last clone; it releases the room that the body takes in the poller's memory.
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

impl Body {
    /// Attaches `guard`, which is dropped with the last clone of the body.
    pub(crate) fn guarded(self, guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Some(Arc::new(guard)), ..self }
    }

    /// The shared text, so that a fake can observe how long it is held.
    pub const fn text(&self) -> &Arc<String> {
        &self.text
    }
}

impl Deref for Body {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T: Into<String>> From<T> for Body {
    fn from(text: T) -> Self {
        Self { text: Arc::new(text.into()), _guard: None }
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Body {}

/// Shows the length only, because a body must not be logged.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.text.len())
    }
}
