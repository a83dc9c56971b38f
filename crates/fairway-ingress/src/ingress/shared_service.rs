//! What Ingresses with the same Service and port share, as in ingress-nginx, which makes one upstream of both: load
//! balancing, sessions and canaries. `translator::served` decides which Ingress takes precedence.

use std::sync::Arc;

use fairway_model::{Balancing, Origin, ServiceName, SessionCookie};
use fairway_objects::backend::BackendAddressSource;
use fairway_objects::balance::Balance;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use imbl::OrdMap;

use crate::ingress::canary::Canary;
use crate::ingress::location::Location;
use crate::ingress::served::ServedIngress;

/// The end of every diagnostic about shared settings, and of no other.
pub const KEPT_APART: &str = "fairway.dev/compat: strict keeps them apart";

/// The shared settings of Ingresses with a Service and port.
#[derive(Clone, Debug)]
pub(crate) struct SharedService {
    /// Load balancing of the oldest Ingress, with the cookie of the youngest that has one.
    pub(crate) balance: Balance,
    /// Of the oldest Ingress.
    pub(crate) via: BackendAddressSource,
    pub(crate) deciders: Deciders,
    /// The canary for all requests: the oldest that names a path with the Service.
    pub(crate) canary: Option<Location>,
    /// The oldest canary that has the Service as its own backend: it sets the weight.
    pub(crate) share: Option<Arc<ServedIngress>>,
}

/// The Ingress that decided, where others request something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deciders {
    /// The oldest Ingress.
    pub(crate) balance: Option<ObjectKey>,
    /// The oldest with sessions, if another has none.
    pub(crate) sessions: Option<ObjectKey>,
    /// The youngest with sessions.
    pub(crate) cookie: Option<ObjectKey>,
    /// The oldest with sessions that sets the affinity mode.
    pub(crate) mode: Option<ObjectKey>,
}

impl PartialEq for SharedService {
    /// Different versions of an Ingress are not equal.
    fn eq(&self, other: &Self) -> bool {
        let path = |it: &Self| {
            it.canary.as_ref().map(|canary| (canary.owner.as_ref().map(Arc::as_ptr), canary.source))
        };
        (&self.balance, self.via, &self.deciders) == (&other.balance, other.via, &other.deciders)
            && path(self) == path(other)
            && self.share.as_ref().map(Arc::as_ptr) == other.share.as_ref().map(Arc::as_ptr)
    }
}

/// The shared Services and ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedServices(OrdMap<ServiceName, Arc<SharedService>>);

impl SharedServices {
    /// The shared settings of a location's Service, if it is shared with other Ingresses.
    pub(crate) fn settings_for(&self, location: &Location) -> Option<&SharedService> {
        if self.0.is_empty() || location.is_strict() {
            return None;
        }
        self.0.get(&location.service()?).map(|shared| &**shared)
    }

    /// Replaces the shared settings; returns whether they changed.
    pub(crate) fn set(&mut self, service: &ServiceName, shared: Option<SharedService>) -> bool {
        let before = self.0.get(service).map(|before| &**before);
        if before == shared.as_ref() {
            return false;
        }
        match shared {
            Some(shared) => drop(self.0.insert(service.clone(), Arc::new(shared))),
            None => drop(self.0.remove(service)),
        }
        true
    }
}

/// Load balancing and address source of Ingresses without annotations.
pub(crate) type DefaultBalance = (Balancing, BackendAddressSource);

/// Severity, problem and consequence of a diagnostic.
type Finding = (Severity, String, &'static str);

impl SharedService {
    /// Diagnostics for shared settings that differ from those of the location's own Ingress. `usual` are the settings
    /// of Ingresses without annotations.
    pub(crate) fn describe(&self, location: &Location, usual: DefaultBalance) -> Vec<Diagnostic> {
        let (Some(owner), Some(service)) = (&location.owner, shown(location)) else { return Vec::new() };
        to_diagnostics(
            location,
            [self.balancing_of(owner, &service, usual), self.sessions_of(owner, &service)],
        )
    }

    /// The same for the Service of a canary.
    pub(crate) fn describe_canary(&self, canary: &Location, usual: DefaultBalance) -> Vec<Diagnostic> {
        let (Some(owner), Some(service)) = (&canary.owner, shown(canary)) else { return Vec::new() };
        to_diagnostics(canary, [self.balancing_of(owner, &service, usual), self.share_of(owner, &service)])
    }

    fn share_of(&self, owner: &ServedIngress, service: &str) -> Option<Finding> {
        let (own, giver) = (owner.canary()?, self.share.as_ref()?);
        let alike = Canary { sessions: own.sessions, ..giver.canary()?.clone() };
        let problem = format!(
            "which requests canaries with {service} get is what Ingress {} says, the oldest",
            giver.key
        );
        (alike != *own).then_some((
            Severity::Warning,
            problem,
            "canary-* of this Ingress has no effect on it",
        ))
    }

    fn balancing_of(&self, owner: &ServedIngress, service: &str, usual: DefaultBalance) -> Option<Finding> {
        let upstream = &owner.contributions.upstream;
        let giver = self.deciders.balance.as_ref()?;
        if (upstream.balance.of_ingress_nginx().without_sessions(), upstream.via)
            == (self.balance.without_sessions(), self.via)
        {
            return None;
        }
        let problem = format!("balancing of {service} is that of Ingress {giver}, the oldest that uses it");
        let asks = (upstream.balance.balancing, upstream.via) != usual || upstream.balance.hash.is_some();
        Some(match asks {
            true => {
                let lost = "load-balance, upstream-hash-by and service-upstream of this Ingress have no effect on it";
                (Severity::Warning, problem, lost)
            }
            false => (Severity::Note, problem, "it holds for requests of this Ingress, too"),
        })
    }

    fn sessions_of(&self, owner: &ServedIngress, service: &str) -> Option<Finding> {
        let cookie = self.balance.cookie.as_ref()?;
        let Some(own) = &owner.contributions.upstream.balance.cookie else {
            let giver = self.deciders.sessions.as_ref()?;
            let problem =
                format!("sessions of {service} stay at one endpoint, because Ingress {giver} has affinity");
            let effect =
                "the cookie counts for requests of this Ingress, too, and its own answers do not set it";
            return Some((Severity::Note, problem, effect));
        };
        let alike = SessionCookie { stickiness: cookie.stickiness, ..(**own).clone() };
        if alike != **cookie {
            let giver = self.deciders.cookie.as_ref()?;
            let problem =
                format!("the cookie of {service} is that of Ingress {giver}, the youngest with affinity");
            return Some((
                Severity::Warning,
                problem,
                "session-cookie-* of this Ingress have no effect on it",
            ));
        }
        let giver = self.deciders.mode.as_ref().filter(|_| own.stickiness != cookie.stickiness)?;
        let problem =
            format!("affinity-mode of {service} is that of Ingress {giver}, the oldest that has it");
        Some((Severity::Warning, problem, "what this Ingress says about it has no effect"))
    }
}

fn to_diagnostics(location: &Location, findings: [Option<Finding>; 2]) -> Vec<Diagnostic> {
    let diagnostic = |(severity, problem, consequence): Finding| {
        let found = Diagnostic::new(severity, "shared-service", origin_of(location));
        found.because(problem, format!("{consequence}; {KEPT_APART}"))
    };
    findings.into_iter().flatten().map(diagnostic).collect()
}

/// Reports that a canary takes some requests of a location that it does not name.
pub(crate) fn canary_shared(location: &Location, canary: &Location) -> Option<Diagnostic> {
    let problem = format!("{} has a canary, {}", shown(location)?, canary.origin(""));
    let effect = format!("it takes its part of the requests of this Ingress, too; {KEPT_APART}");
    Some(Diagnostic::new(Severity::Warning, "shared-service", origin_of(location)).because(problem, effect))
}

/// Reports that a canary that names a location has no effect, because the Service has another one.
pub(crate) fn canary_displaced(
    location: &Location,
    named: &Location,
    canary: &Location,
) -> Option<Diagnostic> {
    let problem = format!("{} is the canary of {} already", canary.origin(""), shown(location)?);
    let found = Diagnostic::new(Severity::Warning, "canary-unused", named.origin(""));
    Some(found.because(problem, format!("this canary gets no requests; {KEPT_APART}")))
}

fn shown(location: &Location) -> Option<String> {
    let ServiceName { namespace, name, port } = location.service()?;
    Some(format!("Service {namespace}/{name} port {port}"))
}

fn origin_of(location: &Location) -> Origin {
    location.origin(if location.is_path() { ".backend.service" } else { ".service" })
}
