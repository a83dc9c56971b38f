//! A header whose value is made of parts of a request.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::template::Template;

/// A header with parts of the request in its value. One whose value comes out empty is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldTemplate {
    /// As written; compared without case.
    pub name: Arc<str>,
    /// Replaces all of the name.
    pub value: Template,
}
