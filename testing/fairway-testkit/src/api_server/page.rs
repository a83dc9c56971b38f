//! What a request gets at once: a status and JSON.

use serde_json::{Value, json};

/// A status and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status.
    pub status: u16,
    /// JSON.
    pub text: String,
}

impl Page {
    pub(super) fn ok(text: impl Into<String>) -> Self {
        Self { status: 200, text: text.into() }
    }

    pub(super) fn failure(status: u16, reason: &str, message: &str) -> Self {
        let text = failure(status, reason, message).to_string();
        Self { status, text }
    }

    /// A failure that says which field is its cause, and why.
    pub(super) fn failure_of_field(
        (status, reason, message): (u16, &str, &str),
        (cause, field): (&str, &str),
    ) -> Self {
        let mut said = failure(status, reason, message);
        said["details"] = json!({ "causes": [{ "reason": cause, "message": "", "field": field }] });
        Self { status, text: said.to_string() }
    }

    /// There is no such resource.
    pub(super) fn no_such_resource() -> Self {
        Self::failure(404, "NotFound", "the server could not find the requested resource")
    }
}

fn failure(status: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": status
    })
}
