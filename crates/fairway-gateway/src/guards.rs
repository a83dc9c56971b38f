//! Which SecurityPolicies protect a listener and a rule. A policy holds for all that it is for, unless a more specific one that
//! holds takes its place, which is the whole of it; whose may do so, the policy itself says. Of ExtensionPolicies none takes the place
//! of another. Makes no filter.

use std::sync::Arc;

use fairway_model::ClientVerification;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::listener::ListenerId;
use crate::policies::security::ReplaceableBy;
use crate::policy::{Attached, OwnPolicy, Target};
use crate::state::Variant;

/// Those of policies that hold, of which each is more specific than the one before it.
pub(crate) fn holding(all: Vec<&Arc<OwnPolicy>>) -> Vec<Arc<OwnPolicy>> {
    let mut held: Vec<Arc<OwnPolicy>> = Vec::new();
    for policy in all.into_iter().rev() {
        if !held.iter().any(|specific| policy.is_replaced_by(specific)) {
            held.push(policy.clone());
        }
    }
    held.reverse();
    held
}

impl OwnPolicy {
    fn is_replaced_by(&self, specific: &Self) -> bool {
        if self.reference == specific.reference {
            return true;
        }
        match self.replaceable {
            ReplaceableBy::SameNamespace => self.reference.key.namespace == specific.reference.key.namespace,
            ReplaceableBy::All => true,
            ReplaceableBy::None => false,
        }
    }

    /// Whether it asks the clients of listeners for certificates.
    pub(crate) fn verifies_clients(&self) -> bool {
        self.security().is_some_and(|security| security.clients.is_some())
    }
}

impl Attached {
    /// The policies that hold at a rule of a route where it is attached, by the name of the rule; `None` where they cannot all be
    /// served together.
    pub(crate) fn guards(
        &self,
        route: &ObjectRef,
        variant: &Variant,
        rule: Option<&str>,
    ) -> Option<Vec<Arc<OwnPolicy>>> {
        if !self.has(Kind::SecurityPolicy) {
            return Some(Vec::new());
        }
        let held = holding(self.at_rule(Kind::SecurityPolicy, &variant.guards, route, rule));
        let verifying = held.iter().filter(|policy| policy.verifies_clients()).count();
        let served = verifying + usize::from(variant.verified) <= 1;
        served.then_some(held)
    }

    /// The ExtensionPolicies that hold at a rule of a route where it is attached, by the name of the rule, each once and the least
    /// specific one first.
    pub(crate) fn extensions(
        &self,
        route: &ObjectRef,
        variant: &Variant,
        rule: Option<&str>,
    ) -> Vec<Arc<OwnPolicy>> {
        let mut held: Vec<Arc<OwnPolicy>> = Vec::new();
        if self.has(Kind::ExtensionPolicy) {
            for policy in self.at_rule(Kind::ExtensionPolicy, &variant.extensions, route, rule) {
                if !held.iter().any(|it| it.reference == policy.reference) {
                    held.push(policy.clone());
                }
            }
        }
        held
    }

    /// The policies of a kind at a rule of a route: those of the listener, then those of the route and of the rule.
    fn at_rule(
        &self,
        kind: Kind,
        of_listener: &[ObjectKey],
        route: &ObjectRef,
        rule: Option<&str>,
    ) -> Vec<&Arc<OwnPolicy>> {
        // One that is gone is marked, and its routes are read again.
        let of_listener = of_listener.iter().map(|key| self.get(&ObjectRef::new(kind, key.clone())));
        let named = rule.filter(|name| !name.is_empty()).map(|name| Target::section(route, name));
        let targets = [Some(Target::whole(route)), named];
        let own = targets.iter().flatten().map(|target| self.deciding(kind, target));
        of_listener.chain(own).flatten().collect()
    }

    /// The policies of a kind that are for a listener, from the least specific one on.
    pub(crate) fn of_listener(
        &self,
        kind: Kind,
        gateway: &ObjectKey,
        listener: &ListenerId,
    ) -> Vec<ObjectKey> {
        let along = self.along(kind, gateway, listener);
        along.into_iter().map(|policy| policy.reference.key.clone()).collect()
    }

    /// The policy for which connections that are not HTTP are closed at a listener: nothing of it can be asked of them.
    pub(crate) fn for_http_only(&self, variant: &Variant) -> Option<ObjectRef> {
        let of = |kind, key: &ObjectKey| ObjectRef::new(kind, key.clone());
        let extensions = variant.extensions.iter().rev().map(|key| of(Kind::ExtensionPolicy, key));
        let mut seeing = extensions.filter(|it| self.get(it).is_some_and(|policy| policy.must_see_all()));
        let guard = variant.guards.last().map(|key| of(Kind::SecurityPolicy, key));
        guard.or_else(|| seeing.next())
    }

    /// Which certificates the clients of a listener must show.
    pub(crate) fn verification(
        &self,
        gateway: &ObjectKey,
        listener: &ListenerId,
    ) -> Option<ClientVerification> {
        let held = holding(self.along(Kind::SecurityPolicy, gateway, listener));
        held.iter().find_map(|policy| policy.security()?.clients.clone())
    }
}
