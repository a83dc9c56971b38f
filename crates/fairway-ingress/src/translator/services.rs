//! Lets Ingresses with the same Service share what they ask for it, before the hosts are made by it.

use std::sync::Arc;

use fairway_objects::options::{Compat, HostOwnership};

use crate::ingress::layout;
use crate::ingress::ownership::HostIngresses;
use crate::ingress::served::ServedIngress;
use crate::translator::state::State;
use crate::translator::work::Work;

impl State {
    /// Finds what is shared, and marks the hosts for which that changed.
    pub(super) fn share_services(&mut self, ownership: HostOwnership, work: &mut Work) {
        // Where hosts have owners, a canary keeps to the paths that it names: the Service's other hosts may be another's.
        let hosts = work.hosts.iter().filter(|_| ownership == HostOwnership::Off);
        for host in hosts {
            let keys = self.dependencies.hosts.of(host);
            let on_host: Vec<_> = keys.filter_map(|(_, key)| self.ingresses.get(key).cloned()).collect();
            let joins = |it: &Arc<ServedIngress>| it.canary().is_some() && it.compat == Compat::Nginx;
            let layout =
                on_host.iter().any(joins).then(|| layout::layout(host, &HostIngresses::equal(on_host)));
            self.ingresses.join_canaries(host, layout.as_ref());
        }
        work.hosts.extend(self.ingresses.share());
    }
}
