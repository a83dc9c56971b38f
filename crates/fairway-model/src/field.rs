//! A header whose value contains parts of the request.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::template::Template;

/// A header whose value contains parts of the request. A header with an empty value is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderTemplate {
    /// As written; compared case-insensitively.
    pub name: Arc<str>,
    /// Replaces all headers of the name.
    pub value: Template,
}
