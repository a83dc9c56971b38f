//! Makes the names that hosts have besides their own, after the hosts: a name follows whatever the host that has it does.

use std::sync::Arc;

use fairway_model::{HostKey, HostPattern, VirtualHost, WildcardSpan};
use fairway_objects::diagnostic::{Diagnostic, Scope};
use fairway_objects::inputs::Inputs;

use crate::ingress::further::{self, Further, Names, one_label};
use crate::listeners::ingress_table;
use crate::translator::state::State;
use crate::translator::work::Work;

impl State {
    /// Notes the names that a host asks for from now on, and marks them with those that it asked for before.
    pub(super) fn remember_names(
        &mut self,
        host: &HostPattern,
        before: &Names,
        after: &Names,
        work: &mut Work,
    ) {
        for (further, name) in before.difference(after) {
            self.dependencies.leave_name(name, &(*further, host.clone()));
        }
        for (further, name) in after.difference(before) {
            self.dependencies.join_name(name, (*further, host.clone()));
        }
        work.names.extend(before.union(after).map(|(_, name)| name.clone()));
        // Whether it is a host of its own decides who has it.
        work.names.extend(
            [host.clone(), many_labels(host)].into_iter().filter(|it| self.dependencies.names.has(it)),
        );
    }

    /// Makes the names that are marked.
    pub(super) fn make_names(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for name in std::mem::take(&mut work.names) {
            let (made, found) = self.made_name(&name, inputs);
            let key = HostKey { table: ingress_table(), host: name.clone() };
            self.current.diagnostics.replace(Scope::FurtherName(key.clone()), found);
            let hosts = &mut self.current.config.hosts;
            match made {
                Some(made) if hosts.get(&key).is_some_and(|before| **before == made) => {}
                Some(made) => drop(hosts.insert(key, Arc::new(made))),
                None if self.hosts.contains_key(&name) => {}
                None => drop(hosts.remove(&key)),
            }
        }
    }

    /// What serves a further name, and why hosts that ask for it do not get it.
    fn made_name(&self, name: &HostPattern, inputs: Inputs<'_>) -> (Option<VirtualHost>, Vec<Diagnostic>) {
        let mut found = Vec::new();
        let mut made = None;
        let (rule, above) = (one_label(name), self.above(name));
        let owner = self.serving(&rule, above, inputs.options.hosts.ownership).0.owner;
        let mut holder = self.hosts.contains_key(&rule).then(|| "is a host of its own".to_owned());
        for (further, main) in self.dependencies.names.of(name) {
            let (serving, _) = self.serving(main, self.above(main), inputs.options.hosts.ownership);
            let Some(asking) = further.asking(&serving) else { continue };
            let foreign =
                owner.as_ref().filter(|owner| serving.owner.as_ref().is_some_and(|own| own != *owner));
            let taken =
                foreign.map(|owner| format!("belongs to namespace {owner}")).or_else(|| holder.clone());
            if let Some(taken) = taken {
                let prefix = &inputs.options.annotations_prefix;
                found.push(further.refusal(name, &taken, asking, prefix));
                continue;
            }
            holder = Some(format!("is already a name of host {main}"));
            let built = self.built_host(main, Some(name), &serving, above.map(|(_, memo)| memo), inputs);
            made = Some(match further {
                Further::Alias => built.host,
                Further::Redirected => {
                    // Nothing of the body matters to a server that only redirects.
                    let policy = self.defaults.policy(self.defaults.forwarding.timeouts, None);
                    let status = self.defaults.https.status;
                    further::redirecting(name, main, asking, status, policy, built.host.certificate)
                }
            });
        }
        (made, found)
    }
}

/// The name as an alias would have it: the star of an alias stands for any number of labels.
pub(super) fn many_labels(host: &HostPattern) -> HostPattern {
    match host {
        HostPattern::Wildcard { suffix, .. } => {
            HostPattern::Wildcard { suffix: suffix.clone(), span: WildcardSpan::ManyLabels }
        }
        other => other.clone(),
    }
}
