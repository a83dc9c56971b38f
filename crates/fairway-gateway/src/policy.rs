//! Policies of Fairway's own group: what each says and for which targets, and which decides where several say something: the
//! more specific one, then the oldest, then the first by name (GEP-713). Owns no listener, no rule and no backend.

use std::sync::Arc;

use fairway_model::{ClientTraffic, Origin};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{PolicyStatus, PolicyTargetReference};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};
use fairway_objects::policies::{SecurityPolicySpec, ServiceReference};
use fairway_objects::users::Users;
use imbl::OrdMap;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::grant::{self, Referrer};
use crate::listener::ListenerId;
use crate::policies::backends::{self, BackendUse};
use crate::policies::security::{self, ReplaceableBy, Security};
use crate::policies::{Warning, Wrong, clients};
use crate::status::GROUP;

/// The kinds of policies.
pub(crate) const KINDS: [Kind; 3] =
    [Kind::ClientTrafficPolicy, Kind::BackendTrafficPolicy, Kind::SecurityPolicy];

/// What a policy is for: an object, or a section of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) object: ObjectRef,
    pub(crate) section: Option<Arc<str>>,
}

/// A target as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) reference: PolicyTargetReference,
    pub(crate) origin: Origin,
    /// `None` where it is of a kind that such policies are not for.
    pub(crate) target: Option<Target>,
}

/// What a policy says.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most policies are of the large kind")]
pub(crate) enum Said {
    Clients(ClientTraffic),
    Backends(BackendUse),
    Security(Security),
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnPolicy {
    pub(crate) reference: ObjectRef,
    pub(crate) created: i64,
    pub(crate) targets: Vec<Written>,
    /// What it says, or what of it cannot be used.
    pub(crate) said: Result<Said, Wrong>,
    pub(crate) replaceable: ReplaceableBy,
    /// The Service that it asks about requests.
    pub(crate) asks: Option<ServiceReference>,
    /// The Services that its URLs name.
    pub(crate) services_of_urls: Vec<ObjectKey>,
    /// The Secrets and ConfigMaps that it names.
    pub(crate) named: Vec<ObjectRef>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// All policies. A clone costs nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attached {
    by_reference: OrdMap<ObjectRef, Arc<OwnPolicy>>,
    /// The policies of a kind for a target, the one that decides first.
    targets: Users<(Target, Kind), (i64, ObjectKey)>,
    /// The policies for an object or a section of it.
    objects: Users<ObjectRef, ObjectRef>,
    /// The policies that ask a Service, or that get keys there.
    asking: Users<ObjectKey, ObjectRef>,
}

/// Reads a policy; `None` where it does not exist.
pub(crate) fn read(reference: &ObjectRef, inputs: Inputs<'_>) -> Option<OwnPolicy> {
    let (all, key) = (&inputs.resources.gateway.policies, &reference.key);
    match reference.kind {
        Kind::ClientTrafficPolicy => {
            let it = all.clients.get(key)?;
            let said = clients::read(&it.object.spec).map(|read| (Said::Clients(read.said), read.warnings));
            Some(OwnPolicy::new(reference, it, &it.object.spec.target_refs, said))
        }
        Kind::BackendTrafficPolicy => {
            let it = all.backends.get(key)?;
            let said = backends::read(&it.object.spec).map(|read| (Said::Backends(read.said), read.warnings));
            Some(OwnPolicy::new(reference, it, &it.object.spec.target_refs, said))
        }
        Kind::SecurityPolicy => {
            let it = all.security.get(key)?;
            let spec = &it.object.spec;
            let from = Referrer { kind: Kind::SecurityPolicy, namespace: &key.namespace };
            let permits = |kind: Kind, to: &ObjectKey| grant::permits(inputs.resources, from, kind, to);
            let context = security::Context { resources: inputs.resources, permits: &permits };
            let said = security::read(key, spec, context);
            let said = said.map(|read| (Said::Security(read.said), read.warnings));
            let mut policy = OwnPolicy {
                replaceable: replaceable(spec),
                asks: spec.external_auth.as_ref().map(|it| it.backend_ref.clone()),
                services_of_urls: security::services_of_urls(spec),
                named: security::named(spec, &key.namespace),
                ..OwnPolicy::new(reference, it, &spec.target_refs, said)
            };
            if spec.client_certificates.is_some() && policy.said.is_ok() && policy.has_route() {
                let field = "spec.clientCertificates".to_owned();
                let origin = it.origin(reference.kind, key, &field);
                let problem = "it needs targets of kind Gateway or ListenerSet";
                policy.refuse(Wrong { field, problem: problem.to_owned() }, origin);
            }
            Some(policy)
        }
        _ => None,
    }
}

/// Nothing replaces what cannot be read, and nothing replaces client certificates: they are verified before there is a request.
/// That holds also while `said` is an error, as when the Secret of their authority is gone.
fn replaceable(spec: &SecurityPolicySpec) -> ReplaceableBy {
    match spec.client_certificates {
        Some(_) => ReplaceableBy::None,
        None => security::replaceable(spec).unwrap_or(ReplaceableBy::None),
    }
}

/// The metadata and the status of a policy.
pub(crate) fn written<'i>(
    reference: &ObjectRef,
    inputs: Inputs<'i>,
) -> Option<(&'i ObjectMeta, Option<&'i PolicyStatus>)> {
    let (all, key) = (&inputs.resources.gateway.policies, &reference.key);
    match reference.kind {
        Kind::ClientTrafficPolicy => {
            all.clients.get(key).map(|it| (&it.object.metadata, it.object.status.as_ref()))
        }
        Kind::BackendTrafficPolicy => {
            all.backends.get(key).map(|it| (&it.object.metadata, it.object.status.as_ref()))
        }
        Kind::SecurityPolicy => {
            all.security.get(key).map(|it| (&it.object.metadata, it.object.status.as_ref()))
        }
        _ => None,
    }
}

/// The object that a policy may be for.
fn target(policy: &ObjectRef, written: &PolicyTargetReference) -> Option<Target> {
    let kind = match (policy.kind, &*written.group, &*written.kind) {
        (Kind::BackendTrafficPolicy, "" | "core", "Service") => Kind::Service,
        (Kind::ClientTrafficPolicy | Kind::SecurityPolicy, GROUP, "Gateway") => Kind::Gateway,
        (Kind::ClientTrafficPolicy | Kind::SecurityPolicy, GROUP, "ListenerSet") => Kind::ListenerSet,
        (Kind::SecurityPolicy, GROUP, "HTTPRoute") => Kind::HttpRoute,
        (Kind::SecurityPolicy, GROUP, "GRPCRoute") => Kind::GrpcRoute,
        _ => return None,
    };
    let section = written.section_name.as_deref().filter(|name| !name.is_empty());
    let object = ObjectRef::new(kind, ObjectKey::new(&policy.key.namespace, &written.name));
    Some(Target { object, section: section.map(Into::into) })
}

impl Target {
    /// The whole object.
    pub(crate) fn whole(object: &ObjectRef) -> Self {
        Self { object: object.clone(), section: None }
    }

    /// A section of it.
    pub(crate) fn section(object: &ObjectRef, name: &str) -> Self {
        Self { object: object.clone(), section: Some(name.into()) }
    }
}

impl OwnPolicy {
    fn new<T: Metadata<Ty = ObjectMeta>>(
        reference: &ObjectRef,
        object: &Sourced<T>,
        targets: &[PolicyTargetReference],
        said: Result<(Said, Vec<Warning>), Wrong>,
    ) -> Self {
        let place = |field: &str| object.origin(reference.kind, &reference.key, field);
        let created = object.object.metadata().creation_timestamp.as_ref();
        let written = |(index, it): (usize, &PolicyTargetReference)| Written {
            reference: it.clone(),
            origin: place(&format!("spec.targetRefs[{index}]")),
            target: target(reference, it),
        };
        let mut policy = Self {
            reference: reference.clone(),
            created: created.map_or(i64::MAX, |at| at.0.as_second()),
            targets: targets.iter().enumerate().map(written).collect(),
            said: Err(Wrong { field: String::new(), problem: String::new() }),
            replaceable: ReplaceableBy::default(),
            asks: None,
            services_of_urls: Vec::new(),
            named: Vec::new(),
            diagnostics: Vec::new(),
        };
        if targets.is_empty() {
            let found = Diagnostic::new(Severity::Error, "policy-target", place("spec.targetRefs"));
            policy.diagnostics.push(found.because("it names no target", "it has no effect"));
        }
        match said {
            Ok((said, warnings)) => {
                let warning = |it: Warning| {
                    let found = Diagnostic::new(Severity::Warning, it.code, place(&it.field));
                    found.because(it.problem, it.consequence)
                };
                policy.diagnostics.extend(warnings.into_iter().map(warning));
                policy.said = Ok(said);
            }
            Err(wrong) => {
                let origin = place(&wrong.field);
                policy.refuse(wrong, origin);
            }
        }
        policy
    }

    /// It cannot be used.
    pub(crate) fn refuse(&mut self, wrong: Wrong, origin: Origin) {
        let consequence = match self.reference.kind {
            Kind::ClientTrafficPolicy => "clients are served as without the policy",
            Kind::BackendTrafficPolicy => "its Services are used as without the policy",
            _ => "requests that it protects are answered 503",
        };
        let found = Diagnostic::new(Severity::Error, "invalid-policy", origin);
        self.diagnostics.push(found.because(wrong.problem.clone(), consequence));
        self.said = Err(wrong);
    }

    /// What it says about clients.
    pub(crate) fn clients(&self) -> Option<&ClientTraffic> {
        match &self.said {
            Ok(Said::Clients(clients)) => Some(clients),
            _ => None,
        }
    }

    /// What it says about backends.
    pub(crate) fn backends(&self) -> Option<&BackendUse> {
        match &self.said {
            Ok(Said::Backends(backends)) => Some(backends),
            _ => None,
        }
    }

    /// What it protects with; `None` where that cannot be used.
    pub(crate) fn security(&self) -> Option<&Security> {
        match &self.said {
            Ok(Said::Security(security)) => Some(security),
            _ => None,
        }
    }

    /// Its targets, as far as it may be for them.
    pub(crate) fn known_targets(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter_map(|written| written.target.as_ref())
    }

    /// Whether it is for a route.
    fn has_route(&self) -> bool {
        self.known_targets().any(|target| matches!(target.object.kind, Kind::HttpRoute | Kind::GrpcRoute))
    }

    fn age(&self) -> (i64, ObjectKey) {
        (self.created, self.reference.key.clone())
    }

    fn asked(&self) -> Option<ObjectKey> {
        let asks = self.asks.as_ref()?;
        let namespace = asks.namespace.as_deref().unwrap_or(&self.reference.key.namespace);
        Some(ObjectKey::new(namespace, &asks.name))
    }

    /// The Services on which it depends.
    fn services(&self) -> impl Iterator<Item = ObjectKey> {
        self.asked().into_iter().chain(self.services_of_urls.iter().cloned())
    }

    /// The namespaces of what it names.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = Arc<str>> {
        let named = self.named.iter().map(|object| object.key.namespace.clone());
        named.chain(self.asked().map(|service| service.namespace))
    }
}

impl Attached {
    /// The policy of that name.
    pub(crate) fn get(&self, reference: &ObjectRef) -> Option<&Arc<OwnPolicy>> {
        self.by_reference.get(reference)
    }

    /// Keeps a policy in the place of the earlier one, `None` when it is gone; gives the earlier one.
    pub(crate) fn set(
        &mut self,
        reference: &ObjectRef,
        policy: Option<&Arc<OwnPolicy>>,
    ) -> Option<Arc<OwnPolicy>> {
        let before = self.by_reference.remove(reference);
        if let Some(before) = &before {
            for target in before.known_targets() {
                self.targets.remove(&(target.clone(), reference.kind), &before.age());
                self.objects.remove(&target.object, reference);
            }
            before.services().for_each(|service| self.asking.remove(&service, reference));
        }
        if let Some(policy) = policy {
            for target in policy.known_targets() {
                self.targets.add(&(target.clone(), reference.kind), policy.age());
                self.objects.add(&target.object, reference.clone());
            }
            policy.services().for_each(|service| self.asking.add(&service, reference.clone()));
            self.by_reference.insert(reference.clone(), policy.clone());
        }
        before
    }

    /// Whether there is a policy of a kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        let first = ObjectRef::new(kind, ObjectKey::default());
        self.by_reference.range(first..).next().is_some_and(|(reference, _)| reference.kind == kind)
    }

    /// The policy of a kind that decides for exactly this target.
    pub(crate) fn deciding(&self, kind: Kind, target: &Target) -> Option<&Arc<OwnPolicy>> {
        let (_, key) = self.targets.of(&(target.clone(), kind)).next()?;
        self.by_reference.get(&ObjectRef::new(kind, key.clone()))
    }

    /// The policies of a kind that are for a listener, from that of its Gateway to that of itself.
    pub(crate) fn along(
        &self,
        kind: Kind,
        gateway: &ObjectKey,
        listener: &ListenerId,
    ) -> Vec<&Arc<OwnPolicy>> {
        if !self.has(kind) {
            return Vec::new();
        }
        let gateway = ObjectRef::new(Kind::Gateway, gateway.clone());
        let set = (listener.owner != gateway).then(|| Target::whole(&listener.owner));
        let own = Target::section(&listener.owner, &listener.name);
        let targets = [Some(Target::whole(&gateway)), set, Some(own)];
        targets.iter().flatten().filter_map(|target| self.deciding(kind, target)).collect()
    }

    /// The policy that decides about the port of a Service, by the name of the port. One that cannot be used has no effect.
    pub(crate) fn usage(&self, service: &ObjectKey, port: Option<&str>) -> Option<&Arc<OwnPolicy>> {
        if !self.has(Kind::BackendTrafficPolicy) {
            return None;
        }
        let service = ObjectRef::new(Kind::Service, service.clone());
        let of = |target: Target| {
            self.deciding(Kind::BackendTrafficPolicy, &target).filter(|policy| policy.said.is_ok())
        };
        port.and_then(|port| of(Target::section(&service, port))).or_else(|| of(Target::whole(&service)))
    }

    /// The policies for an object or a section of it.
    pub(crate) fn of(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.objects.of(object)
    }

    /// The policies that ask a Service, or that get keys there.
    pub(crate) fn asking(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectRef> {
        self.asking.of(service)
    }
}
