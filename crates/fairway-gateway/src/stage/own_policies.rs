//! Reads the marked policies of Fairway's own kinds, marks what they affect, and creates their statuses.

use std::sync::Arc;

use fairway_objects::backend::ResolveError;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{ParentReference, PolicyTargetReference};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::backend::{ResolvedReferences, Resolver, RouteProtocol};
use crate::client_traffic::ClientPolicies;
use crate::condition::{ACCEPTED, Condition, Fault};
use crate::gateway::Listener;
use crate::policies::PolicyError;
use crate::policies::security::Security;
use crate::policy::{self, AskedService, OwnPolicy, PolicyTarget, WrittenTarget, applies_to_requests};
use crate::route::Route;
use crate::state::{Gateways, Variant};
use crate::status::{ObjectStatus, OwnStatus, ParentStatus};
use crate::work::Work;

/// Whether the target of a policy exists.
enum TargetState {
    /// It belongs to another controller, or to none.
    Foreign,
    /// The object or section does not exist.
    Missing(String),
    /// It exists.
    Present,
}

impl Gateways {
    /// Reads policies, after BackendTLSPolicies.
    pub(crate) fn read_own_policies(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for reference in std::mem::take(&mut work.policies) {
            let policy = policy::read(&reference, inputs).map(|policy| self.with_services(policy, inputs));
            let policy = policy.map(Arc::new);
            work.statuses.insert(reference.clone());
            let known = self.own_policies.get(&reference);
            if known.is_some() && known == policy.as_ref() {
                continue;
            }
            let foreign = policy.iter().flat_map(|policy| policy.namespaces());
            self.set_foreign_namespaces(
                &reference,
                foreign.filter(|it| *it != reference.key.namespace).collect(),
            );
            let before = self.own_policies.set(&reference, policy.as_ref());
            for policy in before.iter().chain(&policy) {
                for target in policy.known_targets() {
                    self.mark_target(reference.kind, &target.object, work);
                }
            }
        }
    }

    /// Checks the Services that a policy depends on: without them the policy is unusable, or for an ExtensionPolicy,
    /// the affected service.
    fn with_services(&self, mut policy: OwnPolicy, inputs: Inputs<'_>) -> OwnPolicy {
        let reference = policy.reference.clone();
        let found =
            self.with_resolver(&reference, RouteProtocol::Http, &Variant::default(), inputs, |resolver| {
                let is_asked = |it: &AskedService| {
                    let backend =
                        resolver.resolve_asked_service(&reference, it, &mut ResolvedReferences::default());
                    backend.map_err(|fault| PolicyError::new(it.field.clone(), fault.message))
                };
                policy.asked_services.iter().map(is_asked).collect::<Vec<_>>()
            });
        let origin_of = |field: &str| policy::origin(&reference, field, inputs);
        if reference.kind == Kind::ExtensionPolicy {
            policy.set_backends(found, origin_of);
        } else if let Some(security) = policy.security() {
            let unreachable = found.into_iter().find_map(Result::err);
            if let Some(wrong) = unreachable.or_else(|| missing_key_service(security, inputs)) {
                let origin = origin_of(&wrong.field);
                policy.refuse(wrong, origin);
            }
        }
        policy
    }

    /// Runs `evaluate` with a resolver for the references of an object.
    pub(crate) fn with_resolver<T>(
        &self,
        referrer: &ObjectRef,
        speaks: RouteProtocol,
        variant: &Variant,
        inputs: Inputs<'_>,
        evaluate: impl FnOnce(Resolver<'_>) -> T,
    ) -> T {
        let policies = |service: &ObjectKey, port: Option<&str>| self.policy(service, port);
        let uses = |service: &ObjectKey, port: Option<&str>| {
            let policy = self.own_policies.backend_policy(service, port)?;
            Some((policy.reference.key.clone(), policy.backends()?.clone()))
        };
        let guards = |rule: Option<&str>| self.own_policies.guards(referrer, variant, rule);
        let extensions = |rule: Option<&str>| self.own_policies.extensions(referrer, variant, rule);
        evaluate(Resolver {
            inputs,
            route: referrer,
            speaks,
            policies: &policies,
            backend_settings: &uses,
            guards: &guards,
            extensions: &extensions,
            client_certificate: variant.client_certificate.as_ref(),
        })
    }

    /// Marks what depends on the policies of a kind for an object.
    fn mark_target(&self, kind: Kind, object: &ObjectRef, work: &mut Work) {
        // Which policy applies may have changed.
        work.statuses.extend(self.own_policies.policies_for(object).cloned());
        match object.kind {
            Kind::Service => work.routes.read.extend(self.routes.by_service.users_of(&object.key).cloned()),
            Kind::HttpRoute | Kind::GrpcRoute => drop(work.routes.read.insert(object.clone())),
            _ => {
                let parent = self.listening.parents.get(object);
                let gateway = parent.map_or_else(|| object.key.clone(), |parent| parent.gateway.clone());
                let reference = ObjectRef::new(Kind::Gateway, gateway.clone());
                let sets = self.naming.dependent(&reference).filter(|it| it.kind == Kind::ListenerSet);
                for parent in [&reference].into_iter().chain(sets) {
                    work.statuses.extend(self.own_policies.policies_for(parent).cloned());
                    if applies_to_requests(kind) {
                        work.routes.read.extend(self.routes.by_named.users_of(parent).cloned());
                    }
                }
                let reading = self.listening.readings.get(&gateway);
                if kind == Kind::ClientTrafficPolicy && reading.is_some_and(|it| it.is_shared) {
                    work.gateways.insert(gateway.clone());
                }
                work.placements.insert(gateway);
            }
        }
    }

    /// The status and diagnostics of a policy.
    pub(crate) fn own_policy_status(
        &self,
        reference: &ObjectRef,
        inputs: Inputs<'_>,
    ) -> (Option<ObjectStatus>, Vec<Diagnostic>) {
        let written = policy::metadata_and_status(reference, inputs);
        let (Some(policy), Some((metadata, before))) = (self.own_policies.get(reference), written) else {
            return (None, Vec::new());
        };
        let mut diagnostics = policy.diagnostics.clone();
        let mut ancestors = Vec::with_capacity(policy.targets.len());
        for written in &policy.targets {
            let Some(verdict) = self.target_verdict(policy, written, inputs) else { continue };
            let fault = verdict.as_ref().err();
            let target = written.target.as_ref().and_then(|it| self.listening.parents.get(&it.object));
            let reading = target.and_then(|parent| self.listening.readings.get(&parent.gateway));
            let is_shared = reading.is_some_and(|reading| reading.is_shared);
            diagnostics.extend(fault.and_then(|fault| describe(policy, written, fault, is_shared)));
            ancestors.push(ParentStatus {
                parent: Arc::new(ancestor_reference(&written.reference, &reference.key.namespace)),
                conditions: vec![Condition::true_unless(
                    ACCEPTED,
                    fault,
                    "Accepted",
                    "it holds for the target",
                )],
            });
        }
        let mut before = before.into_iter().flat_map(|status| &status.ancestors);
        let had = before.any(|it| it.controller_name == *self.controller);
        let status = (had || !ancestors.is_empty())
            .then(|| ObjectStatus::new(metadata, &self.controller, OwnStatus::Policy(ancestors.into())));
        (status, diagnostics)
    }

    /// Whether a policy applies to a target; `None` if there is nothing to report.
    fn target_verdict(
        &self,
        policy: &OwnPolicy,
        written: &WrittenTarget,
        inputs: Inputs<'_>,
    ) -> Option<Result<(), Fault>> {
        let kind = policy.reference.kind;
        let Some(target) = &written.target else {
            let it = &written.reference;
            let target_kind = crate::condition::kind(&it.group, &it.kind);
            let problem = format!("{} cannot be for {target_kind}", with_article(kind));
            return Some(Err(Fault::new("Invalid", problem)));
        };
        match self.target_state(target, inputs) {
            TargetState::Foreign => return None,
            TargetState::Missing(problem) => return Some(Err(Fault::new("TargetNotFound", problem))),
            TargetState::Present => {}
        }
        if let Some(wrong) = policy.fault() {
            return Some(Err(Fault::new("Invalid", format!("{}: {}", wrong.field, wrong.problem))));
        }
        let first = self.own_policies.deciding_policy(kind, target);
        if let Some(first) = first.filter(|first| first.reference != policy.reference) {
            let problem = format!("the {} {} is older and is for the same", kind.name(), first.reference.key);
            return Some(Err(Fault::new("Conflicted", problem)));
        }
        Some(self.fault_at_listeners(policy, target).map_or(Ok(()), Err))
    }

    /// Whether the target of a policy exists.
    fn target_state(&self, target: &PolicyTarget, inputs: Inputs<'_>) -> TargetState {
        let PolicyTarget { object, section } = target;
        let (resources, what) = (inputs.resources, format!("{} {}", object.kind.name(), object.key));
        let present = |has: bool, part: &str| match (has, section) {
            (false, Some(name)) => TargetState::Missing(format!("{what} has no {part} {name}")),
            _ => TargetState::Present,
        };
        let named = |name: Option<&str>| section.as_deref() == name;
        let gone = || TargetState::Missing(format!("{what} does not exist"));
        match object.kind {
            Kind::Service => {
                let Some(service) = resources.services.get(&object.key) else { return gone() };
                let mut ports = service.object.ports.iter();
                present(ports.any(|port| named(port.name.as_deref())), "port")
            }
            Kind::HttpRoute | Kind::GrpcRoute => {
                let Some(route) = Route::find(object, resources) else { return gone() };
                match self.routes.by_key.get(object) {
                    Some(memo) if !memo.parents.is_empty() => {
                        present(route.rule_names().into_iter().any(named), "rule")
                    }
                    _ => TargetState::Foreign,
                }
            }
            _ => {
                let gateways = &resources.gateway;
                let exists = match object.kind {
                    Kind::Gateway => gateways.gateways.contains_key(&object.key),
                    _ => gateways.listener_sets.contains_key(&object.key),
                };
                match self.listening.parents.get(object) {
                    Some(parent) => {
                        let mut names = parent.listeners.iter().map(|it| &*it.entry.id.name);
                        present(names.any(|name| named(Some(name))), "listener")
                    }
                    None if exists => TargetState::Foreign,
                    None => gone(),
                }
            }
        }
    }

    /// What of a policy cannot be applied to the listeners of its target.
    fn fault_at_listeners(&self, policy: &OwnPolicy, target: &PolicyTarget) -> Option<Fault> {
        let parent = self.listening.parents.get(&target.object)?;
        let reading = self.listening.readings.get(&parent.gateway)?;
        let mut own_listeners = parent
            .listeners
            .iter()
            .filter(|listener| target.section.as_ref().is_none_or(|name| *name == listener.entry.id.name));
        match policy.reference.kind {
            Kind::ClientTrafficPolicy => {
                let clients = ClientPolicies::for_gateway(reading, &self.own_policies);
                own_listeners.find_map(|listener| clients.fault(listener, policy))
            }
            Kind::SecurityPolicy => {
                own_listeners.find_map(|listener| self.unprotected_listener(policy, target, listener))
            }
            _ => own_listeners.find_map(|listener| http_only_fault(policy, target, listener)),
        }
    }

    /// Why a SecurityPolicy closes a listener of its target.
    fn unprotected_listener(
        &self,
        policy: &OwnPolicy,
        target: &PolicyTarget,
        listener: &Listener,
    ) -> Option<Fault> {
        if let Some(fault) = http_only_fault(policy, target, listener) {
            return Some(fault);
        }
        let entry = &listener.entry;
        let gateway = &self.listening.parents.get(&target.object)?.gateway;
        let reading = self.listening.readings.get(gateway)?;
        let along = self.own_policies.for_listener(Kind::SecurityPolicy, gateway, &entry.id);
        let mut others = along.into_iter().filter(|it| it.verifies_clients());
        let other = others.find(|it| it.reference != policy.reference);
        let by_gateway = reading.frontend.requirements_of(entry.port).verification.is_some();
        let twice = policy.verifies_clients() && (other.is_some() || by_gateway);
        twice.then(|| {
            let by_policy = |it: &Arc<OwnPolicy>| format!("SecurityPolicy {}", it.reference.key);
            let protector = other.map_or_else(|| format!("Gateway {gateway}"), by_policy);
            let problem = format!("{protector} asks for certificates at listener {} too", entry.id.name);
            Fault::new("Invalid", problem)
        })
    }
}

/// Why a policy for requests does not apply to a listener that it targets: it is not an HTTP listener.
fn http_only_fault(policy: &OwnPolicy, target: &PolicyTarget, listener: &Listener) -> Option<Fault> {
    let entry = &listener.entry;
    let is_http = entry.protocol.data_plane_protocol().is_some_and(|protocol| protocol.is_http());
    (!is_http && target.section.is_some()).then(|| {
        let (name, kind) = (&entry.id.name, with_article(policy.reference.kind));
        let problem = format!("listener {name} speaks {}, and {kind} protects HTTP only", entry.protocol);
        Fault::new("Invalid", problem)
    })
}

fn with_article(kind: Kind) -> String {
    let article = if kind.name().starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
    format!("{article} {}", kind.name())
}

/// Why a Service that publishes keys is unusable.
fn missing_key_service(security: &Security, inputs: Inputs<'_>) -> Option<PolicyError> {
    security.keys_backends().iter().find_map(|it| {
        let problem = match it.backend.resolve(inputs).err()? {
            ResolveError::NoService => format!("Service {} does not exist", it.backend.service),
            ResolveError::NoPort { known_names: known } => {
                format!("Service {} has no port {}; it has {known}", it.backend.service, it.backend.port)
            }
            ResolveError::External => {
                format!("Service {} is of type ExternalName, and such are not served", it.backend.service)
            }
        };
        Some(PolicyError::new(it.field.clone(), problem))
    })
}

fn ancestor_reference(target: &PolicyTargetReference, namespace: &str) -> ParentReference {
    ParentReference {
        group: Some(target.group.clone()),
        kind: Some(target.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: target.name.clone(),
        section_name: target.section_name.clone(),
        port: None,
    }
}

/// Problems of the policy as a whole are reported once, elsewhere.
fn describe(
    policy: &OwnPolicy,
    written: &WrittenTarget,
    fault: &Fault,
    is_shared: bool,
) -> Option<Diagnostic> {
    let (code, consequence) = match (fault.reason, policy.reference.kind) {
        ("TargetNotFound", _) => ("policy-target", "it has no effect there"),
        ("Conflicted", _) => ("policy-conflict", "it has no effect there"),
        _ if written.target.is_none() => ("policy-target", "it has no effect there"),
        _ if policy.fault().is_some() => return None,
        (_, Kind::SecurityPolicy) => ("policy-listener", "nobody passes there"),
        (_, Kind::ExtensionPolicy) if policy.must_see_all() => {
            ("policy-listener", "connections there are closed")
        }
        (_, Kind::ExtensionPolicy) => ("policy-listener", "it has no effect there"),
        _ if is_shared => ("policy-listener", "listeners that it is for are not served"),
        _ => ("policy-listener", "a policy for the whole Gateway, or none, holds there"),
    };
    let found = Diagnostic::new(Severity::Error, code, written.origin.clone());
    Some(found.because(fault.message.clone(), consequence))
}
