//! Failures of API server requests, distinguished by how the caller reacts. Owns their texts; never retries.

use std::fmt::Write as _;

use kube::core::Status;

/// Why a request gave no usable response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 403, with the server's message.
    Denied(String),
    /// 404 for a kind: this API server does not serve it.
    NoSuchApi,
    /// 410: the resource version is too old to continue from.
    Gone,
    /// 401.
    Unknown(String),
    /// No response, or the connection failed.
    Unreachable(String),
    /// Any other error status.
    Refused { code: u16, message: String },
    /// The response cannot be decoded.
    Unreadable(String),
}

impl Fault {
    /// Classifies a failed request.
    pub(super) fn from_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status),
            kube::Error::SerdeError(error) => Self::Unreadable(error.to_string()),
            other => Self::Unreachable(error_chain(other)),
        }
    }

    /// Classifies a status (API conventions, "Response Status Kind").
    pub(super) fn from_status(status: &Status) -> Self {
        let message = status.message.clone();
        match (status.code, status.reason.as_str()) {
            (_, "Forbidden") | (403, _) => Self::Denied(message),
            (_, "Expired" | "Gone") | (410, _) => Self::Gone,
            (_, "Unauthorized") | (401, _) => Self::Unknown(message),
            (_, "NotFound") | (404, _) => Self::NoSuchApi,
            (code, _) => Self::Refused { code, message },
        }
    }

    /// Whether the same request will fail until the cluster is changed.
    pub(super) fn is_permanent(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NoSuchApi)
    }

    /// The user named in the server's refusal.
    pub(super) fn user(&self) -> Option<&str> {
        let Self::Denied(message) = self else { return None };
        let (_, rest) = message.split_once("User \"")?;
        rest.split_once('"').map(|(user, _)| user)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied(message) => write!(f, "the API server denies it: {message}"),
            Self::NoSuchApi => f.write_str("the API server does not know this API"),
            Self::Gone => {
                f.write_str("the API server has forgotten what changed since; everything is listed again")
            }
            Self::Unknown(message) => {
                write!(f, "the API server does not accept the credentials: {message}")
            }
            Self::Unreachable(problem) => write!(f, "the API server does not answer: {problem}"),
            Self::Refused { code, message } => write!(f, "the API server answers {code}: {message}"),
            Self::Unreadable(problem) => write!(f, "the answer of the API server cannot be read: {problem}"),
        }
    }
}

/// An error with its causes: the cause is often the helpful part.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            _ = write!(text, ": {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> Status {
        Status::failure(message, reason).with_code(code)
    }

    #[test]
    fn the_user_is_read_from_the_message_of_the_server() {
        let fault = Fault::from_status(&status(
            403,
            "Forbidden",
            "secrets is forbidden: User \"system:serviceaccount:edge:fairway\" cannot list resource \"secrets\"",
        ));
        assert_eq!(fault.user(), Some("system:serviceaccount:edge:fairway"));
        assert!(fault.is_permanent());
    }

    #[test]
    fn a_status_is_classified_by_the_required_reaction() {
        assert_eq!(Fault::from_status(&status(410, "Expired", "too old")), Fault::Gone);
        assert_eq!(Fault::from_status(&status(404, "NotFound", "")), Fault::NoSuchApi);
        assert!(!Fault::from_status(&status(500, "InternalError", "")).is_permanent());
    }
}
