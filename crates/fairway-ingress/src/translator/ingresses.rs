//! Reads the Ingresses that are marked, and marks their hosts and what they refer to.

use std::sync::Arc;

use fairway_objects::diagnostic::Scope;
use fairway_objects::filling::filling;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::HostOwnership;
use fairway_objects::resources::Resources;

use crate::ingress::contributions::Contributions;
use crate::ingress::old_api;
use crate::ingress::read::read;
use crate::ingress::served::ServedIngress;
use crate::translation::IngressStatus;
use crate::translator::state::State;
use crate::translator::work::Work;

impl State {
    /// Reads Ingresses, and marks their hosts as they were and as they are.
    pub(super) fn read_ingresses(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        let are_owned = inputs.options.hosts.ownership == HostOwnership::Namespace;
        for key in filling(std::mem::take(&mut work.ingresses)) {
            if let Some(before) = self.ingresses.remove(&key) {
                if are_owned {
                    self.leave_claims(&before, work);
                }
                self.dependencies.leave_hosts(&before);
                work.hosts.extend(before.hosts());
            }
            let object = inputs.resources.ingresses.get(&key);
            let context = self.context(inputs);
            let reading = object.map(|it| read(&key, it, &self.classes, &context)).unwrap_or_default();
            let certificates = reading.referenced.certificates.clone();
            let before = self.dependencies.set_referenced(&key, reading.referenced);
            work.secrets.extend(before.certificates.symmetric_difference(&certificates).cloned());
            self.current.diagnostics.replace(Scope::Ingress(key.clone()), reading.diagnostics);
            self.set_status(&key, reading.served.as_ref());
            let contributions = reading.served.as_ref().map(|served| &*served.contributions);
            let restricts = contributions.is_some_and(Contributions::check_source_ranges);
            if self.dependencies.set_restricting(&key, restricts) {
                work.report_trust = true;
            }
            if let Some(mut served) = reading.served {
                served.contributions = self.ingresses.shared(served.contributions);
                self.dependencies.join_hosts(&served);
                if are_owned {
                    self.join_claims(&served, work);
                }
                work.hosts.extend(served.hosts());
                self.ingresses.insert(served);
            }
        }
    }

    fn set_status(&mut self, key: &ObjectKey, served: Option<&ServedIngress>) {
        let Some(served) = served else {
            self.current.status.remove(key);
            return;
        };
        let mut hosts: Vec<_> = served.hosts().into_iter().collect();
        hosts.shrink_to_fit();
        let status = IngressStatus::new(key, &served.object.object, hosts);
        if self.current.status.get(key).is_none_or(|before| **before != status) {
            self.current.status.insert(key.clone(), Arc::new(status));
        }
    }

    /// Ingresses of removed API versions only give a diagnostic.
    pub(super) fn read_old_ingresses(&mut self, resources: &Resources, work: &Work) {
        for key in &work.old_ingresses {
            let found = resources.old_ingresses.get(key).map(|value| old_api::describe(key, value));
            let scope = Scope::OldIngress(key.clone());
            self.current.diagnostics.replace(scope, found.into_iter().collect());
        }
    }
}
