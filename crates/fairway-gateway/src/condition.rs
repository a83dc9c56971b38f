//! Status conditions (Gateway API reference, `status.conditions`), and the faults that make them false.

use std::borrow::Cow;

use fairway_model::redact_userinfo;

/// A status condition, without `lastTransitionTime`, which depends on its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type, such as `Accepted`.
    pub kind: &'static str,
    /// Whether it is true.
    pub holds: bool,
    /// The reason, in Gateway API vocabulary.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: Cow<'static, str>,
}

/// Why a condition is false.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// In Gateway API vocabulary.
    pub(crate) reason: &'static str,
    /// The human-readable message.
    pub(crate) message: String,
}

pub(crate) const ACCEPTED: &str = "Accepted";
pub(crate) const PROGRAMMED: &str = "Programmed";
pub(crate) const RESOLVED_REFS: &str = "ResolvedRefs";
pub(crate) const CONFLICTED: &str = "Conflicted";
pub(crate) const OVERLAPPING_TLS: &str = "OverlappingTLSConfig";
pub(crate) const INSECURE_FRONTEND: &str = "InsecureFrontendValidationMode";
pub(crate) const PARTIALLY_INVALID: &str = "PartiallyInvalid";
pub(crate) const SUPPORTED_VERSION: &str = "SupportedVersion";

/// Condition types that this controller writes; others in the same list belong to other controllers.
pub(crate) const OWN_CONDITION_TYPES: &[&str] = &[
    ACCEPTED,
    PROGRAMMED,
    RESOLVED_REFS,
    CONFLICTED,
    OVERLAPPING_TLS,
    INSECURE_FRONTEND,
    PARTIALLY_INVALID,
    SUPPORTED_VERSION,
];

/// A kind for messages, with its group unless it is the core group.
pub(crate) fn kind(group: &str, kind: &str) -> String {
    match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    }
}

impl Fault {
    /// Passwords in URLs are removed from the message, because everyone who may read the object can see it.
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: redact_userinfo(message.into()) }
    }
}

impl Condition {
    /// A true condition. Passwords in URLs are removed from the message.
    pub(crate) fn met(
        kind: &'static str,
        reason: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let message = match message.into() {
            Cow::Owned(text) => Cow::Owned(redact_userinfo(text)),
            known => known,
        };
        Self { kind, holds: true, reason, message }
    }

    /// A false condition.
    pub(crate) fn unmet(kind: &'static str, fault: &Fault) -> Self {
        Self { kind, holds: false, reason: fault.reason, message: Cow::Owned(fault.message.clone()) }
    }

    /// A condition that is true unless there is a fault.
    pub(crate) fn true_unless(
        kind: &'static str,
        fault: Option<&Fault>,
        reason: &'static str,
        message: &'static str,
    ) -> Self {
        match fault {
            Some(fault) => Self::unmet(kind, fault),
            None => Self::met(kind, reason, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_messages_contain_no_url_passwords() {
        let wrong = || "\"https://user:hunter2@auth.test/\" is no host".to_owned();
        let fault = Fault::new("Invalid", wrong());
        let met = Condition::met(PARTIALLY_INVALID, "Invalid", wrong());
        for message in [&*fault.message, &met.message, &Condition::unmet(ACCEPTED, &fault).message] {
            assert_eq!(message, "\"https://<hidden>@auth.test/\" is no host");
        }
    }
}
