//! What can go wrong between us and the API server, as far as it makes a difference to what we do next. Owns the words;
//! never retries.

use std::fmt::Write as _;

use kube::core::Status;

/// Why a request gave no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 403; with what the server said.
    Denied(String),
    /// 404 for a kind: this API server does not know it.
    NoSuchApi,
    /// 410: what we know is too old to continue from.
    Gone,
    /// 401.
    Unknown(String),
    /// No answer, or the connection broke.
    Unreachable(String),
    /// Any other answer that is no success.
    Refused { code: u16, message: String },
    /// The answer cannot be read.
    Unreadable(String),
}

impl Fault {
    /// What a failure of a request means.
    pub(super) fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::status(status),
            kube::Error::SerdeError(error) => Self::Unreadable(error.to_string()),
            other => Self::Unreachable(chain(other)),
        }
    }

    /// What a status means (API conventions, "Response Status Kind").
    pub(super) fn status(status: &Status) -> Self {
        let message = status.message.clone();
        match (status.code, status.reason.as_str()) {
            (_, "Forbidden") | (403, _) => Self::Denied(message),
            (_, "Expired" | "Gone") | (410, _) => Self::Gone,
            (_, "Unauthorized") | (401, _) => Self::Unknown(message),
            (_, "NotFound") | (404, _) => Self::NoSuchApi,
            (code, _) => Self::Refused { code, message },
        }
    }

    /// Whether the same request will not succeed before somebody changes the cluster.
    pub(super) fn is_definite(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NoSuchApi)
    }

    /// The user whom the server named when it refused.
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

/// An error with its causes: the cause is usually what helps.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
    fn the_user_is_taken_from_what_the_server_says() {
        let fault = Fault::status(&status(
            403,
            "Forbidden",
            "secrets is forbidden: User \"system:serviceaccount:edge:fairway\" cannot list resource \"secrets\"",
        ));
        assert_eq!(fault.user(), Some("system:serviceaccount:edge:fairway"));
        assert!(fault.is_definite());
    }

    #[test]
    fn a_status_is_told_apart_by_what_follows_from_it() {
        assert_eq!(Fault::status(&status(410, "Expired", "too old")), Fault::Gone);
        assert_eq!(Fault::status(&status(404, "NotFound", "")), Fault::NoSuchApi);
        assert!(!Fault::status(&status(500, "InternalError", "")).is_definite());
    }
}
