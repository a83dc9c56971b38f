//! Which SecurityPolicies and ExtensionPolicies apply to a listener or to a rule of a route. A SecurityPolicy applies
//! to everything below its target, except where a more specific policy replaces it. Each policy states which policies
//! may replace it. ExtensionPolicies never replace each other.

use std::sync::Arc;

use fairway_model::ClientVerification;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::listener::ListenerId;
use crate::policies::security::ReplaceableBy;
use crate::policy::{AttachedPolicies, OwnPolicy, PolicyTarget};
use crate::state::Variant;

/// The policies in `all` that no more specific policy replaces. Both lists begin with the least specific policy.
pub(crate) fn effective_policies(all: Vec<&Arc<OwnPolicy>>) -> Vec<Arc<OwnPolicy>> {
    let mut effective: Vec<Arc<OwnPolicy>> = Vec::new();
    for policy in all.into_iter().rev() {
        if !effective.iter().any(|specific| policy.is_replaced_by(specific)) {
            effective.push(policy.clone());
        }
    }
    effective.reverse();
    effective
}

impl OwnPolicy {
    /// Whether a more specific policy replaces this one. A policy with several targets may be listed twice, and then
    /// replaces itself.
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

    /// Whether this policy requires client certificates.
    pub(crate) fn verifies_clients(&self) -> bool {
        self.security().is_some_and(|security| security.clients.is_some())
    }
}

impl AttachedPolicies {
    /// The SecurityPolicies that apply to a rule of an attached route, least specific first; `None` if they cannot
    /// all be enforced. `rule` is the name of the rule, if it has one.
    pub(crate) fn guards(
        &self,
        route: &ObjectRef,
        variant: &Variant,
        rule: Option<&str>,
    ) -> Option<Vec<Arc<OwnPolicy>>> {
        if !self.has_kind(Kind::SecurityPolicy) {
            return Some(Vec::new());
        }
        let effective =
            effective_policies(self.policies_at_rule(Kind::SecurityPolicy, &variant.guards, route, rule));
        // A connection verifies its client certificate once: for one policy, or for the Gateway.
        let verifying = effective.iter().filter(|policy| policy.verifies_clients()).count();
        let is_enforceable = verifying + usize::from(variant.verified) <= 1;
        is_enforceable.then_some(effective)
    }

    /// The ExtensionPolicies that apply to a rule of an attached route, each once, least specific first. `rule` is
    /// the name of the rule, if it has one.
    pub(crate) fn extensions(
        &self,
        route: &ObjectRef,
        variant: &Variant,
        rule: Option<&str>,
    ) -> Vec<Arc<OwnPolicy>> {
        let mut extensions: Vec<Arc<OwnPolicy>> = Vec::new();
        if self.has_kind(Kind::ExtensionPolicy) {
            for policy in self.policies_at_rule(Kind::ExtensionPolicy, &variant.extensions, route, rule) {
                if !extensions.iter().any(|known| known.reference == policy.reference) {
                    extensions.push(policy.clone());
                }
            }
        }
        extensions
    }

    /// All policies of a kind for a rule, least specific first: those of the listener, of the route, and of the rule.
    fn policies_at_rule(
        &self,
        kind: Kind,
        listener_keys: &[ObjectKey],
        route: &ObjectRef,
        rule: Option<&str>,
    ) -> Vec<&Arc<OwnPolicy>> {
        // A policy that was deleted has no entry. Skipping it is safe: deletion marks its routes, which are read
        // again.
        let listener_policies = listener_keys.iter().map(|key| self.get(&ObjectRef::new(kind, key.clone())));
        let rule_target = rule.filter(|name| !name.is_empty()).map(|name| PolicyTarget::section(route, name));
        let targets = [Some(PolicyTarget::whole_object(route)), rule_target];
        let route_policies = targets.iter().flatten().map(|target| self.deciding_policy(kind, target));
        listener_policies.chain(route_policies).flatten().collect()
    }

    /// The keys of the policies of a kind that target a listener, its ListenerSet or its Gateway, least specific
    /// first.
    pub(crate) fn listener_policies(
        &self,
        kind: Kind,
        gateway: &ObjectKey,
        listener: &ListenerId,
    ) -> Vec<ObjectKey> {
        let policies = self.for_listener(kind, gateway, listener);
        policies.into_iter().map(|policy| policy.reference.key.clone()).collect()
    }

    /// The most specific policy that can only be enforced for HTTP requests: a SecurityPolicy, or else an
    /// ExtensionPolicy with a service that must see all requests. If there is one, the listener closes other
    /// connections.
    pub(crate) fn http_only_policy(&self, variant: &Variant) -> Option<ObjectRef> {
        let reference = |kind, key: &ObjectKey| ObjectRef::new(kind, key.clone());
        let extensions = variant.extensions.iter().rev().map(|key| reference(Kind::ExtensionPolicy, key));
        let mut mandatory =
            extensions.filter(|extension| self.get(extension).is_some_and(|policy| policy.must_see_all()));
        let security = variant.guards.last().map(|key| reference(Kind::SecurityPolicy, key));
        security.or_else(|| mandatory.next())
    }

    /// How a listener verifies client certificates, if a SecurityPolicy requires them.
    pub(crate) fn verification(
        &self,
        gateway: &ObjectKey,
        listener: &ListenerId,
    ) -> Option<ClientVerification> {
        let effective = effective_policies(self.for_listener(Kind::SecurityPolicy, gateway, listener));
        effective.iter().find_map(|policy| policy.security()?.clients.clone())
    }
}
