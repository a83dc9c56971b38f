//! What is said of an object in its status: conditions (Gateway API reference, `status.conditions`), and faults
//! that make one false. Owns their shape; the words are those of whoever finds something.

use std::borrow::Cow;

use fairway_model::without_userinfo;

/// One condition of an object, without what only its past tells (`lastTransitionTime`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type, as `Accepted`.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in the vocabulary of the Gateway API.
    pub reason: &'static str,
    /// The same for people.
    pub message: Cow<'static, str>,
}

/// Why something does not hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// In the vocabulary of the Gateway API.
    pub(crate) reason: &'static str,
    /// For people.
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

/// The types of conditions that this controller writes; others in the same list are of others.
pub(crate) const OWN: &[&str] = &[
    ACCEPTED,
    PROGRAMMED,
    RESOLVED_REFS,
    CONFLICTED,
    OVERLAPPING_TLS,
    INSECURE_FRONTEND,
    PARTIALLY_INVALID,
    SUPPORTED_VERSION,
];

/// A kind for people, with its group where it is none of the core's.
pub(crate) fn kind(group: &str, kind: &str) -> String {
    match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    }
}

impl Fault {
    /// For this reason, with these words. Everybody who may read the object sees them: passwords of URLs are left out.
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: without_userinfo(message.into()) }
    }
}

impl Condition {
    /// It holds, with these words. As of a fault, they have no password of a URL.
    pub(crate) fn met(
        kind: &'static str,
        reason: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let message = match message.into() {
            Cow::Owned(text) => Cow::Owned(without_userinfo(text)),
            known => known,
        };
        Self { kind, holds: true, reason, message }
    }

    /// It does not hold.
    pub(crate) fn unmet(kind: &'static str, fault: &Fault) -> Self {
        Self { kind, holds: false, reason: fault.reason, message: Cow::Owned(fault.message.clone()) }
    }

    /// It holds for this reason where there is no fault, else it does not hold for the reason of the fault.
    pub(crate) fn of(
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
    fn no_words_of_a_status_have_the_password_of_a_url() {
        let wrong = || "\"https://user:hunter2@auth.test/\" is no host".to_owned();
        let fault = Fault::new("Invalid", wrong());
        let met = Condition::met(PARTIALLY_INVALID, "Invalid", wrong());
        for message in [&*fault.message, &met.message, &Condition::unmet(ACCEPTED, &fault).message] {
            assert_eq!(message, "\"https://<hidden>@auth.test/\" is no host");
        }
    }
}
