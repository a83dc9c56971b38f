//! Reads Fairway's own policies that are marked, and marks what they are for; says in their status what became of them.

use std::sync::Arc;

use fairway_objects::backend::ResolveError;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{ParentReference, PolicyTargetReference};
use fairway_objects::identity::KeysBackend;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::backend::{References, Resolver, Speaks};
use crate::client_traffic::ClientPolicies;
use crate::condition::{ACCEPTED, Condition, Fault};
use crate::gateway::Listener;
use crate::policies::Wrong;
use crate::policy::{self, OwnPolicy, Target, Written};
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
            let policy = policy::read(&reference, inputs).map(|policy| self.with_service(policy, inputs));
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

    /// A policy that asks a Service which cannot be asked cannot be used.
    fn with_service(&self, mut policy: OwnPolicy, inputs: Inputs<'_>) -> OwnPolicy {
        if let Some(wrong) = self.unreachable(&policy, inputs) {
            let (all, key) = (&inputs.resources.gateway.policies.security, &policy.reference.key);
            let origin = all.get(key).map(|it| it.origin(Kind::SecurityPolicy, key, &wrong.field));
            policy.refuse(wrong, origin.unwrap_or_default());
        }
        policy
    }

    /// Which Service that a policy needs cannot be asked.
    fn unreachable(&self, policy: &OwnPolicy, inputs: Inputs<'_>) -> Option<Wrong> {
        let security = policy.security()?;
        let asked = policy.asks.as_ref().and_then(|asks| {
            let variant = Variant::default();
            self.with_resolver(&policy.reference, Speaks::Http, &variant, inputs, |resolver| {
                let (_, fault) = resolver.resolve(asks.into(), &mut References::default()).err()?;
                Some(Wrong::new("spec.externalAuth.backendRef", fault.message))
            })
        });
        let publishes = |it: &KeysBackend| {
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
        };
        asked.or_else(|| security.keys_backends().iter().find_map(publishes))
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
        evaluate(Resolver {
            inputs,
            route: referrer,
            speaks,
            policies: &policies,
            uses: &uses,
            guards: &guards,
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
                    if kind == Kind::SecurityPolicy {
                        work.routes.read.extend(self.routes.by_parent.of(parent).cloned());
                    }
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
            diagnostics.extend(fault.and_then(|fault| describe(policy, written, fault)));
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
            let problem = format!("a {} cannot be for {what}", kind.name());
            return Some(Err(Fault::new("Invalid", problem)));
        };
        match self.standing(target, inputs) {
            Standing::Foreign => return None,
            Standing::Missing(problem) => return Some(Err(Fault::new("TargetNotFound", problem))),
            Standing::Present => {}
        }
        if let Err(wrong) = &policy.said {
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
            _ => own.find_map(|listener| self.unprotected(policy, target, listener)),
        }
    }

    /// Why a SecurityPolicy closes a listener that it is for.
    fn unprotected(&self, policy: &OwnPolicy, target: &Target, listener: &Listener) -> Option<Fault> {
        let entry = &listener.entry;
        let http = entry.protocol.served().is_some_and(|protocol| protocol.is_http());
        if !http && target.section.is_some() {
            let problem = format!(
                "listener {} speaks {}, and a SecurityPolicy protects HTTP only",
                entry.id.name, entry.protocol
            );
            return Some(Fault::new("Invalid", problem));
        }
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
fn describe(policy: &OwnPolicy, written: &Written, fault: &Fault) -> Option<Diagnostic> {
    let (code, consequence) = match (fault.reason, policy.reference.kind) {
        ("TargetNotFound", _) => ("policy-target", "it has no effect there"),
        ("Conflicted", _) => ("policy-conflict", "it has no effect there"),
        _ if written.target.is_none() => ("policy-target", "it has no effect there"),
        _ if policy.said.is_err() => return None,
        (_, Kind::SecurityPolicy) => ("policy-listener", "nobody passes there"),
        _ => ("policy-listener", "a policy for the whole Gateway, or none, holds there"),
    };
    let found = Diagnostic::new(Severity::Error, code, written.origin.clone());
    Some(found.because(fault.message.clone(), consequence))
}
