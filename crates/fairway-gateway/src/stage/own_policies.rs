//! Reads Fairway's own policies that are marked, and marks what they are for; says in their status what became of them.

use std::sync::Arc;

use fairway_objects::backend::ResolveError;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{ParentReference, PolicyTargetReference};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::backend::{References, Resolver, Speaks};
use crate::client_traffic::ClientPolicies;
use crate::condition::{ACCEPTED, Condition, Fault};
use crate::gateway::Listener;
use crate::policies::Wrong;
use crate::policies::security::Security;
use crate::policy::{self, Asked, OwnPolicy, Target, Written, is_of_requests};
use crate::route::Route;
use crate::state::{Gateways, Variant};
use crate::status::{ObjectStatus, OwnStatus, ParentStatus};
use crate::work::Work;

/// What a policy is for, as far as this controller knows it.
enum Standing {
    /// It is another controller's, or nobody's.
    Foreign,
    /// There is no such object or section.
    Missing(String),
    /// It is there.
    Present,
}

impl Gateways {
    /// Reads policies, after those of TLS.
    pub(crate) fn read_own_policies(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for reference in std::mem::take(&mut work.policies) {
            let policy = policy::read(&reference, inputs).map(|policy| self.with_services(policy, inputs));
            let policy = policy.map(Arc::new);
            work.statuses.insert(reference.clone());
            let known = self.attached.get(&reference);
            if known.is_some() && known == policy.as_ref() {
                continue;
            }
            let foreign = policy.iter().flat_map(|policy| policy.namespaces());
            self.set_foreign(&reference, foreign.filter(|it| *it != reference.key.namespace).collect());
            let before = self.attached.set(&reference, policy.as_ref());
            for policy in before.iter().chain(&policy) {
                for target in policy.known_targets() {
                    self.mark_target(reference.kind, &target.object, work);
                }
            }
        }
    }

    /// A policy that asks a Service which cannot be asked cannot be used; of an ExtensionPolicy, that service.
    fn with_services(&self, mut policy: OwnPolicy, inputs: Inputs<'_>) -> OwnPolicy {
        let reference = policy.reference.clone();
        let found = self.with_resolver(&reference, Speaks::Http, &Variant::default(), inputs, |resolver| {
            let of = |it: &Asked| {
                let backend = resolver.asked(&reference, it, &mut References::default());
                backend.map_err(|fault| Wrong::new(it.field.clone(), fault.message))
            };
            policy.asks.iter().map(of).collect::<Vec<_>>()
        });
        let place = |field: &str| policy::origin(&reference, field, inputs);
        if reference.kind == Kind::ExtensionPolicy {
            policy.set_backends(found, place);
        } else if let Some(security) = policy.security() {
            let unreachable = found.into_iter().find_map(Result::err);
            if let Some(wrong) = unreachable.or_else(|| unpublished(security, inputs)) {
                let origin = place(&wrong.field);
                policy.refuse(wrong, origin);
            }
        }
        policy
    }

    /// Evaluates something with what decides about references of an object.
    pub(crate) fn with_resolver<T>(
        &self,
        referrer: &ObjectRef,
        speaks: Speaks,
        variant: &Variant,
        inputs: Inputs<'_>,
        evaluate: impl FnOnce(Resolver<'_>) -> T,
    ) -> T {
        let policies = |service: &ObjectKey, port: Option<&str>| self.policy(service, port);
        let uses = |service: &ObjectKey, port: Option<&str>| {
            let policy = self.attached.usage(service, port)?;
            Some((policy.reference.key.clone(), policy.backends()?.clone()))
        };
        let guards = |rule: Option<&str>| self.attached.guards(referrer, variant, rule);
        let extensions = |rule: Option<&str>| self.attached.extensions(referrer, variant, rule);
        evaluate(Resolver {
            inputs,
            route: referrer,
            speaks,
            policies: &policies,
            uses: &uses,
            guards: &guards,
            extensions: &extensions,
            client_certificate: variant.client_certificate.as_ref(),
        })
    }

    /// Marks what depends on the policies of a kind for an object.
    fn mark_target(&self, kind: Kind, object: &ObjectRef, work: &mut Work) {
        // Another policy may decide from now on, or no longer.
        work.statuses.extend(self.attached.of(object).cloned());
        match object.kind {
            Kind::Service => work.routes.read.extend(self.routes.by_service.of(&object.key).cloned()),
            Kind::HttpRoute | Kind::GrpcRoute => drop(work.routes.read.insert(object.clone())),
            _ => {
                let parent = self.listening.parents.get(object);
                let gateway = parent.map_or_else(|| object.key.clone(), |parent| parent.gateway.clone());
                let reference = ObjectRef::new(Kind::Gateway, gateway.clone());
                let sets = self.naming.dependent(&reference).filter(|it| it.kind == Kind::ListenerSet);
                for parent in [&reference].into_iter().chain(sets) {
                    work.statuses.extend(self.attached.of(parent).cloned());
                    if is_of_requests(kind) {
                        work.routes.read.extend(self.routes.by_named.of(parent).cloned());
                    }
                }
                let reading = self.listening.readings.get(&gateway);
                if kind == Kind::ClientTrafficPolicy && reading.is_some_and(|it| it.is_shared) {
                    work.gateways.insert(gateway.clone());
                }
                work.places.insert(gateway);
            }
        }
    }

    /// What is said in the status of a policy, and what is wrong with it.
    pub(crate) fn own_policy_status(
        &self,
        reference: &ObjectRef,
        inputs: Inputs<'_>,
    ) -> (Option<ObjectStatus>, Vec<Diagnostic>) {
        let written = policy::written(reference, inputs);
        let (Some(policy), Some((metadata, before))) = (self.attached.get(reference), written) else {
            return (None, Vec::new());
        };
        let mut diagnostics = policy.diagnostics.clone();
        let mut ancestors = Vec::with_capacity(policy.targets.len());
        for written in &policy.targets {
            let Some(verdict) = self.verdict(policy, written, inputs) else { continue };
            let fault = verdict.as_ref().err();
            let target = written.target.as_ref().and_then(|it| self.listening.parents.get(&it.object));
            let reading = target.and_then(|parent| self.listening.readings.get(&parent.gateway));
            let is_shared = reading.is_some_and(|reading| reading.is_shared);
            diagnostics.extend(fault.and_then(|fault| describe(policy, written, fault, is_shared)));
            ancestors.push(ParentStatus {
                parent: Arc::new(ancestor(&written.reference, &reference.key.namespace)),
                conditions: vec![Condition::of(ACCEPTED, fault, "Accepted", "it holds for the target")],
            });
        }
        let mut before = before.into_iter().flat_map(|status| &status.ancestors);
        let had = before.any(|it| it.controller_name == *self.controller);
        let status = (had || !ancestors.is_empty())
            .then(|| ObjectStatus::new(metadata, &self.controller, OwnStatus::Policy(ancestors.into())));
        (status, diagnostics)
    }

    /// Whether a policy holds at a target; `None` where nothing is to be said.
    fn verdict(
        &self,
        policy: &OwnPolicy,
        written: &Written,
        inputs: Inputs<'_>,
    ) -> Option<Result<(), Fault>> {
        let kind = policy.reference.kind;
        let Some(target) = &written.target else {
            let it = &written.reference;
            let what = crate::condition::kind(&it.group, &it.kind);
            let problem = format!("{} cannot be for {what}", with_article(kind));
            return Some(Err(Fault::new("Invalid", problem)));
        };
        match self.standing(target, inputs) {
            Standing::Foreign => return None,
            Standing::Missing(problem) => return Some(Err(Fault::new("TargetNotFound", problem))),
            Standing::Present => {}
        }
        if let Some(wrong) = policy.fault() {
            return Some(Err(Fault::new("Invalid", format!("{}: {}", wrong.field, wrong.problem))));
        }
        let first = self.attached.deciding(kind, target);
        if let Some(first) = first.filter(|first| first.reference != policy.reference) {
            let problem = format!("the {} {} is older and is for the same", kind.name(), first.reference.key);
            return Some(Err(Fault::new("Conflicted", problem)));
        }
        Some(self.fault_at_listeners(policy, target).map_or(Ok(()), Err))
    }

    /// Whether the target of a policy is there.
    fn standing(&self, target: &Target, inputs: Inputs<'_>) -> Standing {
        let Target { object, section } = target;
        let (resources, what) = (inputs.resources, format!("{} {}", object.kind.name(), object.key));
        let present = |has: bool, part: &str| match (has, section) {
            (false, Some(name)) => Standing::Missing(format!("{what} has no {part} {name}")),
            _ => Standing::Present,
        };
        let named = |name: Option<&str>| section.as_deref() == name;
        let gone = || Standing::Missing(format!("{what} does not exist"));
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
                    _ => Standing::Foreign,
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
                    None if exists => Standing::Foreign,
                    None => gone(),
                }
            }
        }
    }

    /// What of a policy cannot be served at the listeners that it is for.
    fn fault_at_listeners(&self, policy: &OwnPolicy, target: &Target) -> Option<Fault> {
        let parent = self.listening.parents.get(&target.object)?;
        let reading = self.listening.readings.get(&parent.gateway)?;
        let mut own = parent
            .listeners
            .iter()
            .filter(|listener| target.section.as_ref().is_none_or(|name| *name == listener.entry.id.name));
        match policy.reference.kind {
            Kind::ClientTrafficPolicy => {
                let clients = ClientPolicies::of(reading, &self.attached);
                own.find_map(|listener| clients.fault(listener, policy))
            }
            Kind::SecurityPolicy => own.find_map(|listener| self.unprotected(policy, target, listener)),
            _ => own.find_map(|listener| not_http(policy, target, listener)),
        }
    }

    /// Why a SecurityPolicy closes a listener that it is for.
    fn unprotected(&self, policy: &OwnPolicy, target: &Target, listener: &Listener) -> Option<Fault> {
        if let Some(fault) = not_http(policy, target, listener) {
            return Some(fault);
        }
        let entry = &listener.entry;
        let gateway = &self.listening.parents.get(&target.object)?.gateway;
        let reading = self.listening.readings.get(gateway)?;
        let along = self.attached.along(Kind::SecurityPolicy, gateway, &entry.id);
        let mut others = along.into_iter().filter(|it| it.verifies_clients());
        let other = others.find(|it| it.reference != policy.reference);
        let by_gateway = reading.frontend.of(entry.port).verification.is_some();
        let twice = policy.verifies_clients() && (other.is_some() || by_gateway);
        twice.then(|| {
            let by_policy = |it: &Arc<OwnPolicy>| format!("SecurityPolicy {}", it.reference.key);
            let who = other.map_or_else(|| format!("Gateway {gateway}"), by_policy);
            let problem = format!("{who} asks for certificates at listener {} too", entry.id.name);
            Fault::new("Invalid", problem)
        })
    }
}

/// Why a policy for requests does not hold at a listener that it names: it has none.
fn not_http(policy: &OwnPolicy, target: &Target, listener: &Listener) -> Option<Fault> {
    let entry = &listener.entry;
    let is_http = entry.protocol.served().is_some_and(|protocol| protocol.is_http());
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

/// Which Service that publishes keys cannot be asked.
fn unpublished(security: &Security, inputs: Inputs<'_>) -> Option<Wrong> {
    security.keys_backends().iter().find_map(|it| {
        let problem = match it.backend.target(inputs).err()? {
            ResolveError::NoService => format!("Service {} does not exist", it.backend.service),
            ResolveError::NoPort { known } => {
                format!("Service {} has no port {}; it has {known}", it.backend.service, it.backend.port)
            }
            ResolveError::External => {
                format!("Service {} is of type ExternalName, and such are not served", it.backend.service)
            }
        };
        Some(Wrong::new(it.field.clone(), problem))
    })
}

fn ancestor(target: &PolicyTargetReference, namespace: &str) -> ParentReference {
    ParentReference {
        group: Some(target.group.clone()),
        kind: Some(target.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: target.name.clone(),
        section_name: target.section_name.clone(),
        port: None,
    }
}

/// What is wrong with a policy as a whole is said once, and elsewhere.
fn describe(policy: &OwnPolicy, written: &Written, fault: &Fault, is_shared: bool) -> Option<Diagnostic> {
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
