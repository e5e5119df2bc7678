//! The body of a message, shared between its clones.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::compression;

/// A message's body as text. A clone shares it: a megabyte is not copied from step to step. It may have a
/// compressed form beside the text, in which it crosses queues.
///
/// ```
/// use tidegate_delivery::ports::Body;
/// let body = Body::from("hello");
/// assert_eq!((&*body, body.len()), ("hello", 5));
/// ```
#[derive(Clone)]
pub struct Body {
    text: Arc<String>,
    compressed: Option<Arc<String>>,
    /// Dropped with the last clone; it releases the room that the body takes in the poller's memory.
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

impl Body {
    /// Attaches `margin`, which is dropped with the last clone of the body.
    pub(crate) fn guarded(self, guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Some(Arc::new(guard)), ..self }
    }

    /// A received body: if it came in the compressed form, its text is read from that. A form that cannot be
    /// read stays as it is.
    pub(crate) fn received(self) -> Self {
        match compression::decompress(&self.text) {
            Some(Ok(text)) => Self { text: text.into(), compressed: Some(self.text), ..self },
            Some(Err(_)) | None => self,
        }
    }

    /// The body with its compressed form, if that is worth it.
    #[must_use]
    pub fn compress(self) -> Self {
        let compress = || compression::compress(&self.text).map(Arc::new);
        Self { compressed: self.compressed.clone().or_else(compress), ..self }
    }

    /// The body in the form in which it crosses a queue: compressed if it has that form.
    #[must_use]
    pub fn to_queue(&self) -> Self {
        let text = self.compressed.as_ref().unwrap_or(&self.text);
        Self { text: Arc::clone(text), compressed: None, ..self.clone() }
    }

    /// The bytes that it takes in memory, in both forms.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.compressed.as_ref().map_or(0, |compressed| compressed.len())
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
        Self { text: Arc::new(text.into()), compressed: None, _guard: None }
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
