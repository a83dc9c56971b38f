//! Builds the aliases of hosts, after the hosts: an alias follows its host.

use std::sync::Arc;

use fairway_model::{HostKey, HostPattern, VirtualHost, WildcardSpan};
use fairway_objects::diagnostic::{Diagnostic, DiagnosticScope};
use fairway_objects::inputs::Inputs;

use crate::ingress::aliases::{self, AliasKind, AliasNames, one_label};
use crate::listeners::ingress_table;
use crate::translator::state::TranslatorState;
use crate::translator::work::Work;

impl TranslatorState {
    /// Stores the aliases that a host requests, and marks current and previous ones.
    pub(super) fn store_aliases(
        &mut self,
        host: &HostPattern,
        before: &AliasNames,
        after: &AliasNames,
        work: &mut Work,
    ) {
        for (further, name) in before.difference(after) {
            self.dependencies.remove_alias(name, &(*further, host.clone()));
        }
        for (further, name) in after.difference(before) {
            self.dependencies.add_alias(name, (*further, host.clone()));
        }
        work.names.extend(before.union(after).map(|(_, name)| name.clone()));
        // An alias yields to a host of the same name.
        work.names.extend(
            [host.clone(), many_labels(host)].into_iter().filter(|it| self.dependencies.names.has(it)),
        );
    }

    /// Builds the marked aliases.
    pub(super) fn make_aliases(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for name in std::mem::take(&mut work.names) {
            let (made, found) = self.build_alias(&name, inputs);
            let key = HostKey { table: ingress_table(), host: name.clone() };
            self.current.diagnostics.replace(DiagnosticScope::FurtherName(key.clone()), found);
            let hosts = &mut self.current.config.hosts;
            match made {
                Some(made) if hosts.get(&key).is_some_and(|before| **before == made) => {}
                Some(made) => drop(hosts.insert(key, Arc::new(made))),
                None if self.hosts.contains_key(&name) => {}
                None => drop(hosts.remove(&key)),
            }
        }
    }

    /// The virtual host of an alias, and why other hosts do not get it.
    fn build_alias(&self, name: &HostPattern, inputs: Inputs<'_>) -> (Option<VirtualHost>, Vec<Diagnostic>) {
        let mut found = Vec::new();
        let mut alias = None;
        let (rule, above) = (one_label(name), self.covering_wildcard(name));
        let owner = self.ingresses_serving(&rule, above, inputs.options.hosts.ownership).0.owner;
        let mut holder = self.hosts.contains_key(&rule).then(|| "is a host of its own".to_owned());
        for (further, main) in self.dependencies.names.users_of(name) {
            let (serving, _) =
                self.ingresses_serving(main, self.covering_wildcard(main), inputs.options.hosts.ownership);
            let Some(asking) = further.requesting_ingress(&serving) else { continue };
            let foreign =
                owner.as_ref().filter(|owner| serving.owner.as_ref().is_some_and(|own| own != *owner));
            let refusal =
                foreign.map(|owner| format!("belongs to namespace {owner}")).or_else(|| holder.clone());
            if let Some(taken) = refusal {
                let prefix = &inputs.options.annotations_prefix;
                found.push(further.refusal(name, &taken, asking, prefix));
                continue;
            }
            holder = Some(format!("is already a name of host {main}"));
            let built = self.build_host(main, Some(name), &serving, above.map(|(_, memo)| memo), inputs);
            alias = Some(match further {
                AliasKind::Alias => built.host,
                AliasKind::Redirected => {
                    // The body limit does not matter to a server that only redirects.
                    let policy = self.defaults.policy(self.defaults.forwarding.timeouts, None);
                    let status = self.defaults.https.status;
                    aliases::redirecting_host(name, main, asking, status, policy, built.host.certificate)
                }
            });
        }
        (alias, found)
    }
}

/// The name in the form of an alias, in which the star covers any number of labels.
pub(super) fn many_labels(host: &HostPattern) -> HostPattern {
    match host {
        HostPattern::Wildcard { suffix, .. } => {
            HostPattern::Wildcard { suffix: suffix.clone(), span: WildcardSpan::ManyLabels }
        }
        other => other.clone(),
    }
}
