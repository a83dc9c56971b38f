//! Fairway's own policies: contents, targets, and which of several applies: the more specific one, then the oldest,
//! then the first by name (GEP-713).

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{BackendKey, ClientTraffic, Origin};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{PolicyStatus, PolicyTargetReference};
use fairway_objects::gateway_resources::Kept;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};
use fairway_objects::policies::{ExternalAuth, ExternalProcessor, SecurityPolicySpec, ServiceReference};
use fairway_objects::users::ReverseIndex;
use fairway_objects::with_custom_resource;
use imbl::OrdMap;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::grant::{self, Referrer};
use crate::listener::ListenerId;
use crate::policies::backends::{self, BackendSettings};
use crate::policies::extensions::{self, ExtensionService};
use crate::policies::security::{self, ReplaceableBy, Security};
use crate::policies::{PolicyError, PolicyWarning, clients};
use crate::status::GATEWAY_GROUP;

/// The kinds of policies.
pub(crate) const POLICY_KINDS: [Kind; 4] =
    [Kind::ClientTrafficPolicy, Kind::BackendTrafficPolicy, Kind::SecurityPolicy, Kind::ExtensionPolicy];

/// The target of a policy: an object or a section of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyTarget {
    pub(crate) object: ObjectRef,
    pub(crate) section: Option<Arc<str>>,
}

/// A target as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WrittenTarget {
    pub(crate) reference: PolicyTargetReference,
    pub(crate) origin: Origin,
    /// `None` if policies of this kind do not support the target's kind.
    pub(crate) target: Option<PolicyTarget>,
}

/// The content of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PolicyContent {
    Clients(ClientTraffic),
    Backends(BackendSettings),
    Security(Security),
    Extensions(Vec<ExtensionService>),
}

/// A Service that a policy sends requests to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskedService {
    /// The field that names it, such as `spec.externalAuth.backendRef`.
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
    pub(crate) targets: Vec<WrittenTarget>,
    /// The content, or what makes it unusable.
    pub(crate) content: Result<PolicyContent, PolicyError>,
    pub(crate) replaceable: ReplaceableBy,
    /// The Services that it sends requests to; for an ExtensionPolicy, in the order of its content.
    pub(crate) asked_services: Vec<AskedService>,
    /// The Services named by its URLs.
    pub(crate) url_services: Vec<ObjectKey>,
    /// The Secrets and ConfigMaps that it references.
    pub(crate) references: Vec<ObjectRef>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// All policies. Cloning is free.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachedPolicies {
    by_reference: OrdMap<ObjectRef, Arc<OwnPolicy>>,
    /// The policies of a kind for a target, the one that applies first.
    by_target: ReverseIndex<(PolicyTarget, Kind), (i64, ObjectKey)>,
    /// The policies for an object or a section of it.
    by_object: ReverseIndex<ObjectRef, ObjectRef>,
    /// The policies that send requests to a Service or fetch keys from it.
    by_service: ReverseIndex<ObjectKey, ObjectRef>,
}

/// Reads a policy; `None` if it does not exist.
pub(crate) fn read(reference: &ObjectRef, inputs: Inputs<'_>) -> Option<OwnPolicy> {
    let (all, key) = (&inputs.resources.gateway.policies, &reference.key);
    match reference.kind {
        Kind::ClientTrafficPolicy => {
            let it = all.clients.get(key)?;
            let reading = clients::read(&it.object.spec)
                .map(|read| (PolicyContent::Clients(read.value), read.warnings));
            Some(OwnPolicy::new(reference, it, &it.object.spec.target_refs, reading))
        }
        Kind::BackendTrafficPolicy => {
            let it = all.backends.get(key)?;
            let reading = backends::read(&it.object.spec)
                .map(|read| (PolicyContent::Backends(read.value), read.warnings));
            Some(OwnPolicy::new(reference, it, &it.object.spec.target_refs, reading))
        }
        Kind::SecurityPolicy => {
            let it = all.security.get(key)?;
            let spec = &it.object.spec;
            let from = Referrer { kind: Kind::SecurityPolicy, namespace: &key.namespace };
            let permits = |kind: Kind, to: &ObjectKey| grant::permits(inputs.resources, from, kind, to);
            let context = security::PolicyContext { resources: inputs.resources, permits: &permits };
            let reading = security::read(key, spec, context);
            let content = reading.map(|read| (PolicyContent::Security(read.value), read.warnings));
            let mut policy = OwnPolicy {
                replaceable: replaceable(spec),
                asked_services: spec.external_auth.iter().map(AskedService::for_auth).collect(),
                url_services: security::url_services(spec),
                references: security::named_references(spec, &key.namespace),
                ..OwnPolicy::new(reference, it, &spec.target_refs, content)
            };
            if spec.client_certificates.is_some() && policy.content.is_ok() && policy.has_route() {
                let field = "spec.clientCertificates".to_owned();
                let origin = it.origin(reference.kind, key, &field);
                let problem = "it needs targets of kind Gateway or ListenerSet";
                policy.refuse(PolicyError { field, problem: problem.to_owned() }, origin);
            }
            Some(policy)
        }
        Kind::ExtensionPolicy => {
            let it = all.extensions.get(key)?;
            let spec = &it.object.spec;
            let content = Ok((PolicyContent::Extensions(extensions::read(key, spec)), Vec::new()));
            let asks =
                extensions::processors(spec).iter().enumerate().map(AskedService::for_extension).collect();
            Some(OwnPolicy {
                asked_services: asks,
                ..OwnPolicy::new(reference, it, &spec.target_refs, content)
            })
        }
        _ => None,
    }
}

/// An unreadable policy cannot be replaced, and client certificates cannot either: they are verified before there is
/// a request. This also holds while `content` is an error, for example because the CA's Secret is gone.
fn replaceable(spec: &SecurityPolicySpec) -> ReplaceableBy {
    match spec.client_certificates {
        Some(_) => ReplaceableBy::None,
        None => security::read_replaceable(spec).unwrap_or(ReplaceableBy::None),
    }
}

/// The metadata and the status of a policy.
pub(crate) fn metadata_and_status<'i>(
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

/// The origin of a policy's field.
pub(crate) fn origin(ObjectRef { kind, key }: &ObjectRef, field: &str, inputs: Inputs<'_>) -> Origin {
    let all = &inputs.resources.gateway;
    let origin = with_custom_resource!(
        *kind,
        K => K::all(all).get(key).map(|it| it.origin(*kind, key, field)),
        _ => None
    );
    origin.unwrap_or_default()
}

/// The target object, if the policy supports its kind.
fn policy_target(policy: &ObjectRef, written: &PolicyTargetReference) -> Option<PolicyTarget> {
    let is_of_requests = applies_to_requests(policy.kind);
    let is_of_listeners = is_of_requests || policy.kind == Kind::ClientTrafficPolicy;
    let kind = match (&*written.group, &*written.kind) {
        ("" | "core", "Service") if policy.kind == Kind::BackendTrafficPolicy => Kind::Service,
        (GATEWAY_GROUP, "Gateway") if is_of_listeners => Kind::Gateway,
        (GATEWAY_GROUP, "ListenerSet") if is_of_listeners => Kind::ListenerSet,
        (GATEWAY_GROUP, "HTTPRoute") if is_of_requests => Kind::HttpRoute,
        (GATEWAY_GROUP, "GRPCRoute") if is_of_requests => Kind::GrpcRoute,
        _ => return None,
    };
    let section = written.section_name.as_deref().filter(|name| !name.is_empty());
    let object = ObjectRef::new(kind, ObjectKey::new(&policy.key.namespace, &written.name));
    Some(PolicyTarget { object, section: section.map(Into::into) })
}

/// Whether policies of a kind apply to requests, and so to routes and their listeners.
pub(crate) fn applies_to_requests(kind: Kind) -> bool {
    matches!(kind, Kind::SecurityPolicy | Kind::ExtensionPolicy)
}

impl AskedService {
    fn for_auth(auth: &ExternalAuth) -> Self {
        let field = "spec.externalAuth.backendRef".to_owned();
        Self { field, service: auth.backend_ref.clone(), is_grpc: auth.grpc.is_some() }
    }

    fn for_extension((index, it): (usize, &ExternalProcessor)) -> Self {
        let field = format!("spec.extProc[{index}].backendRef");
        Self { field, service: it.backend_ref.clone(), is_grpc: true }
    }
}

impl PolicyTarget {
    /// The whole object.
    pub(crate) fn whole_object(object: &ObjectRef) -> Self {
        Self { object: object.clone(), section: None }
    }

    /// A section of the object.
    pub(crate) fn section(object: &ObjectRef, name: &str) -> Self {
        Self { object: object.clone(), section: Some(name.into()) }
    }
}

impl OwnPolicy {
    fn new<T: Metadata<Ty = ObjectMeta>>(
        reference: &ObjectRef,
        object: &Sourced<T>,
        targets: &[PolicyTargetReference],
        said: Result<(PolicyContent, Vec<PolicyWarning>), PolicyError>,
    ) -> Self {
        let origin_of = |field: &str| object.origin(reference.kind, &reference.key, field);
        let created = object.object.metadata().creation_timestamp.as_ref();
        let written = |(index, it): (usize, &PolicyTargetReference)| WrittenTarget {
            reference: it.clone(),
            origin: origin_of(&format!("spec.targetRefs[{index}]")),
            target: policy_target(reference, it),
        };
        let mut policy = Self {
            reference: reference.clone(),
            created: created.map_or(i64::MAX, |at| at.0.as_second()),
            targets: targets.iter().enumerate().map(written).collect(),
            content: Err(PolicyError { field: String::new(), problem: String::new() }),
            replaceable: ReplaceableBy::default(),
            asked_services: Vec::new(),
            url_services: Vec::new(),
            references: Vec::new(),
            diagnostics: Vec::new(),
        };
        if targets.is_empty() {
            let found = Diagnostic::new(Severity::Error, "policy-target", origin_of("spec.targetRefs"));
            policy.diagnostics.push(found.because("it names no target", "it has no effect"));
        }
        match said {
            Ok((said, warnings)) => {
                let warning = |it: PolicyWarning| {
                    let found = Diagnostic::new(Severity::Warning, it.code, origin_of(&it.field));
                    found.because(it.problem, it.consequence)
                };
                policy.diagnostics.extend(warnings.into_iter().map(warning));
                policy.content = Ok(said);
            }
            Err(wrong) => {
                let origin = origin_of(&wrong.field);
                policy.refuse(wrong, origin);
            }
        }
        policy
    }

    /// Makes the policy unusable.
    pub(crate) fn refuse(&mut self, wrong: PolicyError, origin: Origin) {
        let consequence = match self.reference.kind {
            Kind::ClientTrafficPolicy => "clients are served as without the policy",
            Kind::BackendTrafficPolicy => "its Services are used as without the policy",
            _ => "requests that it protects are answered 503",
        };
        self.report(&wrong, consequence, origin);
        self.content = Err(wrong);
    }

    fn report(&mut self, wrong: &PolicyError, consequence: &str, origin: Origin) {
        let found = Diagnostic::new(Severity::Error, "invalid-policy", origin);
        self.diagnostics.push(found.because(wrong.problem.clone(), consequence));
    }

    /// Sets the backends of an ExtensionPolicy's services, or why there are none, and reports unusable ones.
    pub(crate) fn set_backends(
        &mut self,
        found: Vec<Result<BackendKey, PolicyError>>,
        place: impl Fn(&str) -> Origin,
    ) {
        let Ok(PolicyContent::Extensions(services)) = &mut self.content else { return };
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
            let consequence = match service.fails_open {
                true => "requests that the policy is for go on without this service",
                false => "requests that the policy is for are answered 500",
            };
            self.report(wrong, consequence, place(&wrong.field));
        }
    }

    /// What makes the policy unusable.
    pub(crate) fn fault(&self) -> Option<&PolicyError> {
        match &self.content {
            Ok(PolicyContent::Extensions(services)) => {
                services.iter().find_map(|it| it.extension.as_ref().err())
            }
            Ok(_) => None,
            Err(wrong) => Some(wrong),
        }
    }

    /// The services that see requests and responses.
    pub(crate) fn services(&self) -> &[ExtensionService] {
        match &self.content {
            Ok(PolicyContent::Extensions(services)) => services,
            _ => &[],
        }
    }

    /// Whether requests must not pass without one of its services.
    pub(crate) fn must_see_all(&self) -> bool {
        self.services().iter().any(|service| !service.fails_open)
    }

    /// The settings for clients.
    pub(crate) fn clients(&self) -> Option<&ClientTraffic> {
        match &self.content {
            Ok(PolicyContent::Clients(clients)) => Some(clients),
            _ => None,
        }
    }

    /// The settings for backends.
    pub(crate) fn backends(&self) -> Option<&BackendSettings> {
        match &self.content {
            Ok(PolicyContent::Backends(backends)) => Some(backends),
            _ => None,
        }
    }

    /// Its access control; `None` if it is unusable.
    pub(crate) fn security(&self) -> Option<&Security> {
        match &self.content {
            Ok(PolicyContent::Security(security)) => Some(security),
            _ => None,
        }
    }

    /// Its targets of supported kinds.
    pub(crate) fn known_targets(&self) -> impl Iterator<Item = &PolicyTarget> {
        self.targets.iter().filter_map(|written| written.target.as_ref())
    }

    /// Whether it targets a route.
    fn has_route(&self) -> bool {
        self.known_targets().any(|target| matches!(target.object.kind, Kind::HttpRoute | Kind::GrpcRoute))
    }

    fn precedence(&self) -> (i64, ObjectKey) {
        (self.created, self.reference.key.clone())
    }

    fn asked_service_keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.asked_services.iter().map(|AskedService { service, .. }| {
            let namespace = service.namespace.as_deref().unwrap_or(&self.reference.key.namespace);
            ObjectKey::new(namespace, &service.name)
        })
    }

    /// The Services on which it depends, each once.
    fn service_dependencies(&self) -> BTreeSet<ObjectKey> {
        self.asked_service_keys().chain(self.url_services.iter().cloned()).collect()
    }

    /// The namespaces of its references.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = Arc<str>> {
        let named = self.references.iter().map(|object| object.key.namespace.clone());
        named.chain(self.asked_service_keys().map(|service| service.namespace))
    }
}

impl AttachedPolicies {
    /// The policy with this name.
    pub(crate) fn get(&self, reference: &ObjectRef) -> Option<&Arc<OwnPolicy>> {
        self.by_reference.get(reference)
    }

    /// Replaces a policy, or removes it for `None`; returns the previous one.
    pub(crate) fn set(
        &mut self,
        reference: &ObjectRef,
        policy: Option<&Arc<OwnPolicy>>,
    ) -> Option<Arc<OwnPolicy>> {
        let before = self.by_reference.remove(reference);
        if let Some(before) = &before {
            for target in before.known_targets() {
                self.by_target.remove(&(target.clone(), reference.kind), &before.precedence());
                self.by_object.remove(&target.object, reference);
            }
            before
                .service_dependencies()
                .iter()
                .for_each(|service| self.by_service.remove(service, reference));
        }
        if let Some(policy) = policy {
            for target in policy.known_targets() {
                self.by_target.add(&(target.clone(), reference.kind), policy.precedence());
                self.by_object.add(&target.object, reference.clone());
            }
            policy
                .service_dependencies()
                .iter()
                .for_each(|service| self.by_service.add(service, reference.clone()));
            self.by_reference.insert(reference.clone(), policy.clone());
        }
        before
    }

    /// Whether there is a policy of a kind.
    pub(crate) fn has_kind(&self, kind: Kind) -> bool {
        let first = ObjectRef::new(kind, ObjectKey::default());
        self.by_reference.range(first..).next().is_some_and(|(reference, _)| reference.kind == kind)
    }

    /// The policy of a kind that applies to exactly this target.
    pub(crate) fn deciding_policy(&self, kind: Kind, target: &PolicyTarget) -> Option<&Arc<OwnPolicy>> {
        let (_, key) = self.by_target.users_of(&(target.clone(), kind)).next()?;
        self.by_reference.get(&ObjectRef::new(kind, key.clone()))
    }

    /// The policies of a kind for a listener, from that of the Gateway to that of the listener itself.
    pub(crate) fn for_listener(
        &self,
        kind: Kind,
        gateway: &ObjectKey,
        listener: &ListenerId,
    ) -> Vec<&Arc<OwnPolicy>> {
        if !self.has_kind(kind) {
            return Vec::new();
        }
        let gateway = ObjectRef::new(Kind::Gateway, gateway.clone());
        let set = (listener.owner != gateway).then(|| PolicyTarget::whole_object(&listener.owner));
        let listener_target = PolicyTarget::section(&listener.owner, &listener.name);
        let targets = [Some(PolicyTarget::whole_object(&gateway)), set, Some(listener_target)];
        targets.iter().flatten().filter_map(|target| self.deciding_policy(kind, target)).collect()
    }

    /// The policy that applies to a Service port, by port name. Unusable policies have no effect.
    pub(crate) fn backend_policy(&self, service: &ObjectKey, port: Option<&str>) -> Option<&Arc<OwnPolicy>> {
        if !self.has_kind(Kind::BackendTrafficPolicy) {
            return None;
        }
        let service = ObjectRef::new(Kind::Service, service.clone());
        let matches_target = |target: PolicyTarget| {
            self.deciding_policy(Kind::BackendTrafficPolicy, &target).filter(|policy| policy.content.is_ok())
        };
        port.and_then(|port| matches_target(PolicyTarget::section(&service, port)))
            .or_else(|| matches_target(PolicyTarget::whole_object(&service)))
    }

    /// The policies for an object or a section of it.
    pub(crate) fn policies_for(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.by_object.users_of(object)
    }

    /// The policies that send requests to a Service or fetch keys from it.
    pub(crate) fn policies_asking(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectRef> {
        self.by_service.users_of(service)
    }
}
