//! What Ingresses with the same Service and port share, as in ingress-nginx, where both make one upstream: balancing,
//! sessions and canaries. Owns what is said about it; which Ingress decides is found in `translator::served`.

use std::sync::Arc;

use fairway_model::{Balancing, Origin, ServiceName, SessionCookie};
use fairway_objects::backend::Via;
use fairway_objects::balance::Balance;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use imbl::OrdMap;

use crate::ingress::canary::Canary;
use crate::ingress::location::Location;
use crate::ingress::served::ServedIngress;

/// The end of each diagnostic about what Ingresses share, and of no other.
pub const KEPT_APART: &str = "fairway.dev/compat: strict keeps them apart";

/// What the Ingresses with a Service and port share.
#[derive(Clone, Debug)]
pub(crate) struct SharedService {
    /// Of the oldest Ingress, with the cookie of the youngest that has one.
    pub(crate) balance: Balance,
    /// Of the oldest.
    pub(crate) via: Via,
    pub(crate) givers: Givers,
    /// Who takes a part of all requests: the path of a canary, the oldest that names a path with the Service.
    pub(crate) canary: Option<Location>,
    /// The oldest canary whose own the Service is: it says how large the part is.
    pub(crate) share: Option<Arc<ServedIngress>>,
}

/// Who decided, as far as others ask for something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Givers {
    /// The oldest Ingress.
    pub(crate) balance: Option<ObjectKey>,
    /// The oldest with sessions, where one has none.
    pub(crate) sessions: Option<ObjectKey>,
    /// The youngest with sessions.
    pub(crate) cookie: Option<ObjectKey>,
    /// The oldest with sessions that says how they and endpoints belong together.
    pub(crate) mode: Option<ObjectKey>,
}

impl PartialEq for SharedService {
    /// Two states of an Ingress are different ones.
    fn eq(&self, other: &Self) -> bool {
        let path = |it: &Self| {
            it.canary.as_ref().map(|canary| (canary.owner.as_ref().map(Arc::as_ptr), canary.place))
        };
        (&self.balance, self.via, &self.givers) == (&other.balance, other.via, &other.givers)
            && path(self) == path(other)
            && self.share.as_ref().map(Arc::as_ptr) == other.share.as_ref().map(Arc::as_ptr)
    }
}

/// The Services and ports that are shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedServices(OrdMap<ServiceName, Arc<SharedService>>);

impl SharedServices {
    /// What holds for the Service of a location, where that is shared with other Ingresses.
    pub(crate) fn of(&self, location: &Location) -> Option<&SharedService> {
        if self.0.is_empty() || location.is_strict() {
            return None;
        }
        self.0.get(&location.service()?).map(|shared| &**shared)
    }

    /// Puts what is shared in the place of what was; says whether it is something else.
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

/// How Ingresses without annotations reach their Services.
pub(crate) type Usual = (Balancing, Via);

/// What is said of something that is shared: how bad it is, what it is, and what happens.
type Said = (Severity, String, &'static str);

impl SharedService {
    /// What holds at a location otherwise than its Ingress says by itself. `usual` is what Ingresses
    /// have that say nothing.
    pub(crate) fn describe(&self, location: &Location, usual: Usual) -> Vec<Diagnostic> {
        let (Some(owner), Some(service)) = (&location.owner, shown(location)) else { return Vec::new() };
        told(location, [self.balancing_of(owner, &service, usual), self.sessions_of(owner, &service)])
    }

    /// The same of the Service of a canary.
    pub(crate) fn describe_canary(&self, canary: &Location, usual: Usual) -> Vec<Diagnostic> {
        let (Some(owner), Some(service)) = (&canary.owner, shown(canary)) else { return Vec::new() };
        told(canary, [self.balancing_of(owner, &service, usual), self.share_of(owner, &service)])
    }

    fn share_of(&self, owner: &ServedIngress, service: &str) -> Option<Said> {
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

    fn balancing_of(&self, owner: &ServedIngress, service: &str, usual: Usual) -> Option<Said> {
        let own = &owner.contributions.upstream;
        let giver = self.givers.balance.as_ref()?;
        if (own.balance.of_ingress_nginx().without_sessions(), own.via)
            == (self.balance.without_sessions(), self.via)
        {
            return None;
        }
        let problem = format!("balancing of {service} is that of Ingress {giver}, the oldest that uses it");
        let asks = (own.balance.balancing, own.via) != usual || own.balance.hash.is_some();
        Some(match asks {
            true => {
                let lost = "load-balance, upstream-hash-by and service-upstream of this Ingress have no effect on it";
                (Severity::Warning, problem, lost)
            }
            false => (Severity::Note, problem, "it holds for requests of this Ingress, too"),
        })
    }

    fn sessions_of(&self, owner: &ServedIngress, service: &str) -> Option<Said> {
        let cookie = self.balance.cookie.as_ref()?;
        let Some(own) = &owner.contributions.upstream.balance.cookie else {
            let giver = self.givers.sessions.as_ref()?;
            let problem =
                format!("sessions of {service} stay at one endpoint, because Ingress {giver} has affinity");
            let taken =
                "the cookie counts for requests of this Ingress, too, and its own answers do not set it";
            return Some((Severity::Note, problem, taken));
        };
        let alike = SessionCookie { stickiness: cookie.stickiness, ..(**own).clone() };
        if alike != **cookie {
            let giver = self.givers.cookie.as_ref()?;
            let problem =
                format!("the cookie of {service} is that of Ingress {giver}, the youngest with affinity");
            return Some((
                Severity::Warning,
                problem,
                "session-cookie-* of this Ingress have no effect on it",
            ));
        }
        let giver = self.givers.mode.as_ref().filter(|_| own.stickiness != cookie.stickiness)?;
        let problem =
            format!("affinity-mode of {service} is that of Ingress {giver}, the oldest that has it");
        Some((Severity::Warning, problem, "what this Ingress says about it has no effect"))
    }
}

fn told(location: &Location, said: [Option<Said>; 2]) -> Vec<Diagnostic> {
    let diagnostic = |(severity, problem, consequence): Said| {
        let found = Diagnostic::new(severity, "shared-service", place(location));
        found.because(problem, format!("{consequence}; {KEPT_APART}"))
    };
    said.into_iter().flatten().map(diagnostic).collect()
}

/// That a canary takes a part of the requests of a location, although it does not name it.
pub(crate) fn canary_shared(location: &Location, canary: &Location) -> Option<Diagnostic> {
    let problem = format!("{} has a canary, {}", shown(location)?, canary.origin(""));
    let taken = format!("it takes its part of the requests of this Ingress, too; {KEPT_APART}");
    Some(Diagnostic::new(Severity::Warning, "shared-service", place(location)).because(problem, taken))
}

/// That a canary that names a location takes nothing, because another one is that of the Service.
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

fn place(location: &Location) -> Origin {
    location.origin(if location.is_path() { ".backend.service" } else { ".service" })
}
