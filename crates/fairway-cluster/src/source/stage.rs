//! The stage of a watch, and the diagnostics about missing access.

use std::time::{Duration, Instant};

use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::kinds::{INFERENCE_GROUP, Kind, POLICY_GROUP};
use tokio::time;

use super::collection::{Collection, WatchedKind};
use super::fault::Fault;

/// A denial counts when it is repeated after this delay: an API server that is starting may briefly deny what its roles allow.
const DENIAL_CONFIRMATION_DELAY: Duration = Duration::from_millis(900);

/// The stage of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchStage {
    /// It starts when other lists are complete.
    Waiting,
    /// The first list is in progress.
    Listing,
    /// It is up to date.
    Synced,
    /// It failed and is retried.
    Failing { since: Instant, fault: Fault, definite: bool },
}

impl WatchStage {
    /// Whether it stays out of sync until the cluster is changed.
    pub(super) fn is_permanent(&self) -> bool {
        matches!(self, Self::Failing { definite: true, .. })
    }

    /// Records a failure; returns whether anything changed.
    pub(super) fn fail(&mut self, fault: Fault, at: time::Instant) -> bool {
        let at = at.into_std();
        let before = match self {
            Self::Failing { since, fault: before, .. } if *before == fault => Some(*since),
            _ => None,
        };
        let since = before.unwrap_or(at);
        let definite =
            fault.is_permanent() && at.saturating_duration_since(since) >= DENIAL_CONFIRMATION_DELAY;
        let next = Self::Failing { since, fault, definite };
        let differs = *self != next;
        *self = next;
        differs
    }

    /// Logs the failure. That the server does not answer is logged once for all watches, by the probe.
    pub(super) fn log(&self, collection: &Collection) {
        match self {
            Self::Failing { fault: fault @ Fault::Unreachable(_), .. } => {
                tracing::debug!(%collection, %fault, "a watch failed; retrying");
            }
            Self::Failing { fault, definite: false, .. } => {
                tracing::warn!(problem = problem(collection, fault), "a watch failed; retrying");
            }
            _ => {}
        }
    }
}

/// The diagnostic for a failing watch.
pub(super) fn diagnostic(collection: &Collection, fault: &Fault, listed: bool) -> Diagnostic {
    let code = match fault {
        Fault::Denied(_) => "no-permission",
        Fault::NoSuchApi => "no-such-api",
        _ => "not-in-step",
    };
    let namespace = collection.namespace.as_deref().unwrap_or_default();
    let name = collection.name.as_deref().unwrap_or("*");
    // The roles of ingress-nginx do not cover the Gateway API, and many clusters have its kinds for another controller.
    let is_foreign =
        collection.kind.kind().and_then(Kind::of_gateways).is_some_and(|it| it.group != POLICY_GROUP);
    let is_optional = is_foreign && matches!(fault, Fault::Denied(_)) && !listed;
    Diagnostic {
        severity: if is_optional { Severity::Warning } else { Severity::Error },
        origin: Origin::object(collection.kind.name(), namespace, name),
        code,
        problem: problem(collection, fault),
        consequence: consequence(collection.kind, listed).to_owned(),
    }
}

/// What is wrong and what to do about it.
pub(super) fn problem(collection: &Collection, fault: &Fault) -> String {
    match fault {
        Fault::Denied(message) => {
            let user = fault.user().unwrap_or("Fairway");
            format!(
                "{user} may not list and watch {collection}; grant the verbs list and watch on {} to it ({message})",
                collection.resource()
            )
        }
        Fault::NoSuchApi => {
            let remedy = match collection.kind.kind().and_then(Kind::of_gateways) {
                Some(known) if known.group == POLICY_GROUP => "install the CRDs of Fairway's policies",
                Some(known) if known.group == INFERENCE_GROUP => {
                    "install the CRDs of the Gateway API Inference Extension"
                }
                Some(_) => "install the CRDs of the Gateway API",
                None => "Kubernetes 1.21 or newer does",
            };
            let (resource, api) =
                (collection.kind.api_kind().api().map_or("", |api| api.resource), collection.api());
            format!("the API server does not serve {resource} of {api}; {remedy}")
        }
        other => format!("{collection} are out of sync: {other}"),
    }
}

fn consequence(watched: WatchedKind, listed: bool) -> &'static str {
    if listed {
        return "the last known state is served; retrying";
    }
    if watched == WatchedKind::NamespaceNames {
        return "no namespace is selected and nothing is served";
    }
    match watched.api_kind() {
        Kind::Ingress => "no Ingress there is served",
        Kind::IngressClass => "only class names given by flags are known",
        Kind::Service | Kind::EndpointSlice => "paths to Services there answer 503",
        Kind::Secret => {
            "hosts whose certificate is there show the default certificate; paths that need another Secret there \
             answer 503"
        }
        Kind::ConfigMap => "what it sets is not in force",
        Kind::Namespace => "listeners of Gateways that choose namespaces by their labels accept no routes",
        Kind::GatewayClass => "no Gateway is served",
        Kind::Gateway => "no Gateway there is served",
        Kind::ListenerSet => "the listeners of ListenerSets there are not served",
        Kind::ReferenceGrant => "references into namespaces there are refused",
        Kind::BackendTlsPolicy => "endpoints there are not spoken to with TLS because of a policy",
        Kind::ClientTrafficPolicy | Kind::BackendTrafficPolicy => {
            "what such policies there say is not in force"
        }
        Kind::ExtensionPolicy => {
            "requests and responses there pass services that such policies ask without being seen by them"
        }
        Kind::SecurityPolicy => {
            "what such policies there protect is not protected by them: requests pass that they would refuse"
        }
        Kind::RouteFilter => "rules that name such filters there are answered 500",
        Kind::InferencePool => "shares of routes to InferencePools there are answered 500",
        Kind::ServiceImport => "shares of routes to ServiceImports there are answered 500",
        Kind::Pod => "InferencePools there have no endpoints",
        Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => {
            "no such route there is served"
        }
        Kind::OldIngress | Kind::Resolved | Kind::Placement | Kind::Releases | Kind::Published => {
            "nothing: they are not watched"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_definite_only_when_it_is_repeated() {
        let mut stage = WatchStage::Synced;
        let (now, denied) = (time::Instant::now(), || Fault::Denied("no".to_owned()));
        assert!(stage.fail(denied(), now) && !stage.is_permanent());
        assert!(!stage.fail(denied(), now + DENIAL_CONFIRMATION_DELAY / 2) && !stage.is_permanent());
        assert!(stage.fail(denied(), now + DENIAL_CONFIRMATION_DELAY) && stage.is_permanent());
        let gone = Fault::Unreachable("refused".to_owned());
        assert!(stage.fail(gone, now + DENIAL_CONFIRMATION_DELAY * 2) && !stage.is_permanent());
    }

    #[test]
    fn a_missing_permission_names_the_account_the_verbs_the_resource_and_the_namespace() {
        let collection = Collection::within(Kind::Secret, &"shop".into());
        let fault = Fault::Denied("User \"system:serviceaccount:edge:fairway\" cannot list".to_owned());
        let found = diagnostic(&collection, &fault, false).to_string();
        assert!(found.starts_with("error[no-permission]: Secret shop/*: system:serviceaccount:edge:fairway"));
        assert!(found.contains("verbs list and watch on secrets") && found.contains("in namespace shop"));
    }
}
