//! Permissions that the API server refuses: each is said once, and once more when it is there. Owns the words; who was
//! refused decides when to try again.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Error;
use kube::core::Status;

use crate::source::fault::Fault;

/// A permission, and what is lost without it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permit {
    pub(crate) verb: &'static str,
    /// As RBAC and the API server spell it: `ingresses/status.networking.k8s.io`.
    pub(crate) resource: Cow<'static, str>,
    /// Empty for what has none.
    pub(crate) namespace: Arc<str>,
    pub(crate) lost: &'static str,
}

/// What was refused and said so.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    said: Mutex<BTreeSet<Permit>>,
}

/// Whether the answer is about a namespace that is being removed (`NamespaceTerminatingCause`).
pub(crate) fn is_ending(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.is_forbidden() && causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permission to {} {}", self.verb, self.resource)?;
        if self.namespace.is_empty() {
            return Ok(());
        }
        write!(f, " in namespace {}", self.namespace)
    }
}

impl Refusals {
    /// Says what the answer to a request that needs `permit` shows about it, when that is new; gives the answer back.
    pub(crate) fn judge<T>(&self, permit: Permit, answer: Result<T, Error>) -> Result<T, Error> {
        match &answer {
            // A namespace that is being removed takes nothing new from anybody.
            Err(Error::Api(status)) if is_ending(status) => {}
            Err(Error::Api(status)) if status.is_forbidden() => self.refused(permit, &status.message),
            // Anything else that the API server answers, it answers to who may ask.
            Ok(_) | Err(Error::Api(_)) => self.granted(&permit),
            Err(_) => {}
        }
        answer
    }

    /// Says what the failure of a watch shows about its permission, when that is new.
    pub(crate) fn judge_watch(&self, permit: &Permit, fault: &Fault) {
        match fault {
            Fault::Denied(answer) => self.refused(permit.clone(), answer),
            Fault::Unreachable(_) | Fault::Unreadable(_) => {}
            Fault::NoSuchApi | Fault::Gone | Fault::Unknown(_) | Fault::Refused { .. } => {
                self.granted(permit);
            }
        }
    }

    fn refused(&self, permit: Permit, answer: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.contains(&permit) {
            tracing::error!(
                answer,
                "missing {permit}: {}; grant it to the ServiceAccount, it is tried again without a restart",
                permit.lost
            );
            said.insert(permit);
        }
    }

    /// Says that the permission is there, when it was not.
    pub(crate) fn granted(&self, permit: &Permit) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.remove(permit) {
            tracing::info!("granted by now: {permit}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(details: &str) -> Result<(), Error> {
        let text = format!(
            r#"{{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"no","details":{details}}}"#
        );
        Err(Error::Api(Box::new(serde_json::from_str(&text).unwrap())))
    }

    #[test]
    fn a_namespace_that_ends_is_no_missing_permission() {
        let permit =
            || Permit { verb: "create", resource: "events".into(), namespace: "a".into(), lost: "it" };
        let refusals = Refusals::default();
        let ending =
            r#"{"causes":[{"reason":"NamespaceTerminating","message":"ends","field":"metadata.namespace"}]}"#;
        assert!(refusals.judge(permit(), forbidden(ending)).is_err());
        assert!(refusals.said.lock().unwrap().is_empty());
        assert!(refusals.judge(permit(), forbidden("{}")).is_err());
        assert_eq!(refusals.said.lock().unwrap().len(), 1);
    }
}
