//! Reads the marked BackendTLSPolicies, and marks routes to their targets.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectRef};

use crate::state::Gateways;
use crate::tls_policy::{self, TlsPolicy};
use crate::work::Work;

impl Gateways {
    /// Reads BackendTLSPolicies.
    pub(crate) fn read_policies(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        let all = std::mem::take(&mut work.policies).into_iter();
        let (marked, own): (BTreeSet<_>, BTreeSet<_>) = all.partition(|it| it.kind == Kind::BackendTlsPolicy);
        work.policies = own;
        for ObjectRef { key, .. } in marked {
            let object = inputs.resources.gateway.policies.tls.get(&key);
            let policy = object.map(|object| Arc::new(tls_policy::read(&key, object, inputs)));
            let before = match &policy {
                Some(policy) => self.tls_policies.by_key.insert(key.clone(), policy.clone()),
                None => self.tls_policies.by_key.remove(&key),
            };
            let reference = ObjectRef::new(Kind::BackendTlsPolicy, key);
            let found = policy.as_ref().map(|policy| policy.diagnostics.clone()).unwrap_or_default();
            work.changes.diagnostics.push((reference.clone(), found));
            work.statuses.insert(reference);
            let targets = |policy: Option<&Arc<TlsPolicy>>| {
                policy.map(|policy| policy.targets.clone()).unwrap_or_default()
            };
            let (old, new) = (targets(before.as_ref()), targets(policy.as_ref()));
            if let Some(before) = &before {
                let age = (before.created, before.key.clone());
                old.iter().for_each(|target| self.tls_policies.targets.remove(target, &age));
            }
            if let Some(policy) = &policy {
                let age = (policy.created, policy.key.clone());
                new.iter().for_each(|target| self.tls_policies.targets.add(target, age.clone()));
            }
            let services: BTreeSet<_> = old.union(&new).map(|(service, _)| service.clone()).collect();
            for service in &services {
                work.routes.read.extend(self.routes.by_service.users_of(service).cloned());
                work.policies.extend(self.own_policies.policies_asking(service).cloned());
            }
            // Which policy applies may have changed.
            for (_, other) in old.union(&new).flat_map(|target| self.tls_policies.targets.users_of(target)) {
                work.statuses.insert(ObjectRef::new(Kind::BackendTlsPolicy, other.clone()));
            }
        }
    }
}
