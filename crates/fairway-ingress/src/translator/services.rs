//! Shares Service settings between Ingresses, before hosts are built.

use std::sync::Arc;

use fairway_objects::options::{Compat, HostOwnership};

use crate::ingress::layout;
use crate::ingress::ownership::HostIngresses;
use crate::ingress::served::ServedIngress;
use crate::translator::state::TranslatorState;
use crate::translator::work::Work;

impl TranslatorState {
    /// Updates shared settings, and marks the affected hosts.
    pub(super) fn share_services(&mut self, ownership: HostOwnership, work: &mut Work) {
        // With host ownership, a canary is limited to the paths that it names, because other hosts of the Service may
        // belong to others.
        let hosts = work.hosts.iter().filter(|_| ownership == HostOwnership::Off);
        for host in hosts {
            let keys = self.dependencies.hosts.users_of(host);
            let on_host: Vec<_> = keys.filter_map(|(_, key)| self.ingresses.get(key).cloned()).collect();
            let joins = |it: &Arc<ServedIngress>| it.canary().is_some() && it.compat == Compat::Nginx;
            let layout =
                on_host.iter().any(joins).then(|| layout::layout(host, &HostIngresses::unowned(on_host)));
            self.ingresses.join_canaries(host, layout.as_ref());
        }
        work.hosts.extend(self.ingresses.update_shared());
    }
}
