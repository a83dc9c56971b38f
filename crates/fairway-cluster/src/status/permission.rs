//! Logs permissions that the API server refuses: once when refused, and once when granted. Retrying is up to the caller.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Error;
use kube::core::Status;

use crate::source::fault::Fault;

/// A permission, and the consequence of missing it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequiredPermission {
    pub(crate) verb: &'static str,
    /// As RBAC and the API server spell it: `ingresses/status.networking.k8s.io`.
    pub(crate) resource: Cow<'static, str>,
    /// Empty for cluster-scoped resources.
    pub(crate) namespace: Arc<str>,
    pub(crate) lost: &'static str,
}

/// The refusals that were logged.
#[derive(Debug, Default)]
pub(crate) struct RefusedPermissions {
    reported: Mutex<BTreeSet<RequiredPermission>>,
}

/// Whether the response is about a namespace that is being deleted (`NamespaceTerminatingCause`).
pub(crate) fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.is_forbidden() && causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

impl fmt::Display for RequiredPermission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permission to {} {}", self.verb, self.resource)?;
        if self.namespace.is_empty() {
            return Ok(());
        }
        write!(f, " in namespace {}", self.namespace)
    }
}

impl RefusedPermissions {
    /// Logs what the result of a request says about `permit`, if that is new; returns the result.
    pub(crate) fn check<T>(&self, permit: RequiredPermission, reply: Result<T, Error>) -> Result<T, Error> {
        match &reply {
            // A namespace that is being deleted accepts nothing new from anyone.
            Err(Error::Api(status)) if is_namespace_terminating(status) => {}
            Err(Error::Api(status)) if status.is_forbidden() => self.record_refusal(permit, &status.message),
            // Any other response implies that the request was permitted.
            Ok(_) | Err(Error::Api(_)) => self.record_grant(&permit),
            Err(_) => {}
        }
        reply
    }

    /// Logs what the failure of a watch says about its permission, if that is new.
    pub(crate) fn check_watch(&self, permit: &RequiredPermission, fault: &Fault) {
        match fault {
            Fault::Denied(answer) => self.record_refusal(permit.clone(), answer),
            Fault::Unreachable(_) | Fault::Unreadable(_) => {}
            Fault::NoSuchApi | Fault::Gone | Fault::Unknown(_) | Fault::Refused { .. } => {
                self.record_grant(permit);
            }
        }
    }

    fn record_refusal(&self, permit: RequiredPermission, response: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if !reported.contains(&permit) {
            tracing::error!(
                answer = response,
                "missing {permit}: {}; grant it to the ServiceAccount; Fairway retries without a restart",
                permit.lost
            );
            reported.insert(permit);
        }
    }

    /// Logs that the permission was granted, if it was missing before.
    pub(crate) fn record_grant(&self, permit: &RequiredPermission) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.remove(permit) {
            tracing::info!("now granted: {permit}");
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
        let permit = || RequiredPermission {
            verb: "create",
            resource: "events".into(),
            namespace: "a".into(),
            lost: "it",
        };
        let refusals = RefusedPermissions::default();
        let ending =
            r#"{"causes":[{"reason":"NamespaceTerminating","message":"ends","field":"metadata.namespace"}]}"#;
        assert!(refusals.check(permit(), forbidden(ending)).is_err());
        assert!(refusals.reported.lock().unwrap().is_empty());
        assert!(refusals.check(permit(), forbidden("{}")).is_err());
        assert_eq!(refusals.reported.lock().unwrap().len(), 1);
    }
}
