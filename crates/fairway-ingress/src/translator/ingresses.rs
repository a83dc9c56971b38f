//! Reads each Ingress that a change has marked, stores the result, and marks the hosts and Secrets that must be
//! updated after it.

use std::sync::Arc;

use fairway_objects::diagnostic::DiagnosticScope;
use fairway_objects::inputs::Inputs;
use fairway_objects::insertion_order::filling;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::HostOwnership;
use fairway_objects::resources::Resources;

use crate::ingress::contributions::Contributions;
use crate::ingress::old_api;
use crate::ingress::read;
use crate::ingress::served::ServedIngress;
use crate::translation::IngressStatus;
use crate::translator::state::TranslatorState;
use crate::translator::work::Work;

impl TranslatorState {
    /// Reads the marked Ingresses. Marks the hosts that each has now and those that it had before, because the latter
    /// lose its rules.
    pub(super) fn read_ingresses(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        let hosts_have_owners = inputs.options.hosts.ownership == HostOwnership::Namespace;
        // Insertions in this order fill the nodes of the persistent maps.
        for key in filling(std::mem::take(&mut work.ingresses)) {
            if let Some(previous) = self.ingresses.remove(&key) {
                if hosts_have_owners {
                    self.remove_claims(&previous, work);
                }
                self.dependencies.remove_hosts(&previous);
                work.hosts.extend(previous.hosts());
            }
            let object = inputs.resources.ingresses.get(&key);
            let context = self.context(inputs);
            let outcome =
                object.map(|ingress| read::read(&key, ingress, &self.classes, &context)).unwrap_or_default();
            let certificates = outcome.referenced.certificates.clone();
            let previous_references = self.dependencies.set_referenced(&key, outcome.referenced);
            // Secrets that are certificates only since this change, or no longer.
            work.secrets
                .extend(previous_references.certificates.symmetric_difference(&certificates).cloned());
            self.current.diagnostics.replace(DiagnosticScope::Ingress(key.clone()), outcome.diagnostics);
            self.set_status(&key, outcome.served.as_ref());
            let contributions = outcome.served.as_ref().map(|ingress| &*ingress.contributions);
            let checks_source_ranges = contributions.is_some_and(Contributions::have_source_ranges);
            if self.dependencies.set_restricting(&key, checks_source_ranges) {
                work.report_trust = true;
            }
            if let Some(mut ingress) = outcome.served {
                ingress.contributions = self.ingresses.reuse_contributions(ingress.contributions);
                self.dependencies.add_hosts(&ingress);
                if hosts_have_owners {
                    self.add_claims(&ingress, work);
                }
                work.hosts.extend(ingress.hosts());
                self.ingresses.insert(ingress);
            }
        }
    }

    /// Updates the status of an Ingress, or removes it if the Ingress is not served.
    fn set_status(&mut self, key: &ObjectKey, ingress: Option<&ServedIngress>) {
        let Some(ingress) = ingress else {
            self.current.status.remove(key);
            return;
        };
        let mut hosts: Vec<_> = ingress.hosts().into_iter().collect();
        hosts.shrink_to_fit();
        let status = IngressStatus::new(key, &ingress.object.object, hosts);
        if self.current.status.get(key).is_none_or(|previous| **previous != status) {
            self.current.status.insert(key.clone(), Arc::new(status));
        }
    }

    /// Updates the diagnostics of Ingresses with a removed API version. Such an Ingress has no other effect.
    pub(super) fn read_old_ingresses(&mut self, resources: &Resources, work: &Work) {
        for key in &work.old_ingresses {
            let diagnostic = resources.old_ingresses.get(key).map(|object| old_api::describe(key, object));
            let scope = DiagnosticScope::OldIngress(key.clone());
            self.current.diagnostics.replace(scope, diagnostic.into_iter().collect());
        }
    }
}
