//! Policies of Fairway's own group: what each says and for which targets, and which decides where several say something: the
//! more specific one, then the oldest, then the first by name (GEP-713). Owns no listener, no rule and no backend.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{BackendKey, ClientTraffic, Origin};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{PolicyStatus, PolicyTargetReference};
use fairway_objects::gateway_resources::Kept;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};
use fairway_objects::policies::{ExternalAuth, ExternalProcessor, SecurityPolicySpec, ServiceReference};
use fairway_objects::users::Users;
use fairway_objects::with_custom_resource;
use imbl::OrdMap;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::grant::{self, Referrer};
use crate::listener::ListenerId;
use crate::policies::backends::{self, BackendUse};
use crate::policies::extensions::{self, Service};
use crate::policies::security::{self, ReplaceableBy, Security};
use crate::policies::{Warning, Wrong, clients};
use crate::status::GROUP;

/// The kinds of policies.
pub(crate) const KINDS: [Kind; 4] =
    [Kind::ClientTrafficPolicy, Kind::BackendTrafficPolicy, Kind::SecurityPolicy, Kind::ExtensionPolicy];

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
pub(crate) enum Said {
    Clients(ClientTraffic),
    Backends(BackendUse),
    Security(Security),
    Extensions(Vec<Service>),
}

/// A Service that a policy asks about requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// The field that names it, as `spec.externalAuth.backendRef`.
    pub(crate) field: String,
    pub(crate) service: ServiceReference,
    /// Whether it speaks gRPC.
    pub(crate) is_grpc: bool,
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
    /// The Services that it asks about requests; of an ExtensionPolicy, in the order of what it says.
    pub(crate) asks: Vec<Asked>,
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
                asks: spec.external_auth.iter().map(Asked::of_auth).collect(),
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
        Kind::ExtensionPolicy => {
            let it = all.extensions.get(key)?;
            let spec = &it.object.spec;
            let said = Ok((Said::Extensions(extensions::read(key, spec)), Vec::new()));
            let asks = extensions::asked(spec).iter().enumerate().map(Asked::of_extension).collect();
            Some(OwnPolicy { asks, ..OwnPolicy::new(reference, it, &spec.target_refs, said) })
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
        Kind::ExtensionPolicy => {
            all.extensions.get(key).map(|it| (&it.object.metadata, it.object.status.as_ref()))
        }
        _ => None,
    }
}

/// A policy at a field.
pub(crate) fn origin(ObjectRef { kind, key }: &ObjectRef, field: &str, inputs: Inputs<'_>) -> Origin {
    let all = &inputs.resources.gateway;
    let origin = with_custom_resource!(
        *kind,
        K => K::all(all).get(key).map(|it| it.origin(*kind, key, field)),
        _ => None
    );
    origin.unwrap_or_default()
}

/// The object that a policy may be for.
fn target(policy: &ObjectRef, written: &PolicyTargetReference) -> Option<Target> {
    let is_of_requests = is_of_requests(policy.kind);
    let is_of_listeners = is_of_requests || policy.kind == Kind::ClientTrafficPolicy;
    let kind = match (&*written.group, &*written.kind) {
        ("" | "core", "Service") if policy.kind == Kind::BackendTrafficPolicy => Kind::Service,
        (GROUP, "Gateway") if is_of_listeners => Kind::Gateway,
        (GROUP, "ListenerSet") if is_of_listeners => Kind::ListenerSet,
        (GROUP, "HTTPRoute") if is_of_requests => Kind::HttpRoute,
        (GROUP, "GRPCRoute") if is_of_requests => Kind::GrpcRoute,
        _ => return None,
    };
    let section = written.section_name.as_deref().filter(|name| !name.is_empty());
    let object = ObjectRef::new(kind, ObjectKey::new(&policy.key.namespace, &written.name));
    Some(Target { object, section: section.map(Into::into) })
}

/// Whether policies of a kind are for requests, and so for routes and their listeners.
pub(crate) fn is_of_requests(kind: Kind) -> bool {
    matches!(kind, Kind::SecurityPolicy | Kind::ExtensionPolicy)
}

impl Asked {
    fn of_auth(auth: &ExternalAuth) -> Self {
        let field = "spec.externalAuth.backendRef".to_owned();
        Self { field, service: auth.backend_ref.clone(), is_grpc: auth.grpc.is_some() }
    }

    fn of_extension((index, it): (usize, &ExternalProcessor)) -> Self {
        let field = format!("spec.extProc[{index}].backendRef");
        Self { field, service: it.backend_ref.clone(), is_grpc: true }
    }
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
            asks: Vec::new(),
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
        self.report(&wrong, consequence, origin);
        self.said = Err(wrong);
    }

    fn report(&mut self, wrong: &Wrong, consequence: &str, origin: Origin) {
        let found = Diagnostic::new(Severity::Error, "invalid-policy", origin);
        self.diagnostics.push(found.because(wrong.problem.clone(), consequence));
    }

    /// Takes the backends of the services of an ExtensionPolicy, or why there are none, and reports which of them cannot be used.
    pub(crate) fn set_backends(
        &mut self,
        found: Vec<Result<BackendKey, Wrong>>,
        place: impl Fn(&str) -> Origin,
    ) {
        let Ok(Said::Extensions(services)) = &mut self.said else { return };
        for (service, found) in services.iter_mut().zip(found) {
            if let Ok(extension) = &mut service.extension {
                match found {
                    Ok(backend) => Arc::make_mut(extension).service.backend = backend,
                    Err(wrong) => service.extension = Err(wrong),
                }
            }
        }
        for service in services.clone() {
            let Err(wrong) = &service.extension else { continue };
            let consequence = match service.is_open {
                true => "requests that the policy is for go on without this service",
                false => "requests that the policy is for are answered 500",
            };
            self.report(wrong, consequence, place(&wrong.field));
        }
    }

    /// What of it cannot be used.
    pub(crate) fn fault(&self) -> Option<&Wrong> {
        match &self.said {
            Ok(Said::Extensions(services)) => services.iter().find_map(|it| it.extension.as_ref().err()),
            Ok(_) => None,
            Err(wrong) => Some(wrong),
        }
    }

    /// The services that see requests and responses.
    pub(crate) fn services(&self) -> &[Service] {
        match &self.said {
            Ok(Said::Extensions(services)) => services,
            _ => &[],
        }
    }

    /// Whether nothing may pass that one of its services does not see.
    pub(crate) fn must_see_all(&self) -> bool {
        self.services().iter().any(|service| !service.is_open)
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

    fn asked(&self) -> impl Iterator<Item = ObjectKey> {
        self.asks.iter().map(|Asked { service, .. }| {
            let namespace = service.namespace.as_deref().unwrap_or(&self.reference.key.namespace);
            ObjectKey::new(namespace, &service.name)
        })
    }

    /// The Services on which it depends, each once.
    fn depends_on(&self) -> BTreeSet<ObjectKey> {
        self.asked().chain(self.services_of_urls.iter().cloned()).collect()
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
            before.depends_on().iter().for_each(|service| self.asking.remove(service, reference));
        }
        if let Some(policy) = policy {
            for target in policy.known_targets() {
                self.targets.add(&(target.clone(), reference.kind), policy.age());
                self.objects.add(&target.object, reference.clone());
            }
            policy.depends_on().iter().for_each(|service| self.asking.add(service, reference.clone()));
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
