//! HTTPRoutes and GRPCRoutes with the same hosts at one listener: only the older one is accepted (Gateway API
//! `GRPCRouteSpec.hostnames`). Marks the listeners whose route count changes. TCPRoutes and UDPRoutes are all
//! accepted; one serves, and the others name it.

use fairway_model::HostPattern;
use fairway_objects::object::{Kind, ObjectRef};
use imbl::OrdSet;

use crate::hostname;
use crate::listener::ListenerId;
use crate::route::stream;
use crate::state::{Gateways, RouteByAge};
use crate::work::Work;

impl Gateways {
    /// Decides which routes lose at the marked listeners.
    pub(crate) fn decide_contests(&mut self, work: &mut Work) {
        for listener in std::mem::take(&mut work.attached) {
            // A listener has either such routes or others, of which there may be very many.
            let all = self.routes.attached.users_of(&listener);
            let streams = all.take_while(|it| stream::serves_alone(it.kind));
            work.routes.contributing.extend(streams.map(RouteByAge::reference));
            let after = self.losers(&listener);
            let before = match after.is_empty() {
                true => self.routes.losers.remove(&listener),
                false => self.routes.losers.insert(listener.clone(), after.clone()),
            };
            let changed = before.unwrap_or_default().symmetric_difference(after);
            if !changed.is_empty() {
                work.statuses.insert(listener.owner);
                work.routes.contributing.extend(changed);
            }
        }
    }

    fn losers(&self, listener: &ListenerId) -> OrdSet<ObjectRef> {
        let (all, grpc) = (self.routes.attached.count(listener), self.routes.grpc.count(listener));
        if grpc == 0 || grpc == all {
            return OrdSet::new();
        }
        let (mut http, mut grpc) = (OrdSet::new(), OrdSet::new());
        let mut losers = OrdSet::new();
        for route in self.routes.attached.users_of(listener) {
            let hosts = self.hosts_at(listener, route);
            let (own, other) = match route.kind {
                Kind::GrpcRoute => (&mut grpc, &http),
                _ => (&mut http, &grpc),
            };
            match hosts.iter().any(|host| meets(other, host)) {
                true => drop(losers.insert(route.reference())),
                false => own.extend(hosts),
            }
        }
        losers
    }

    fn hosts_at(&self, listener: &ListenerId, route: &RouteByAge) -> OrdSet<HostPattern> {
        let memo = self.routes.by_key.get(&route.reference());
        let attached = memo.iter().flat_map(|memo| memo.attachments());
        attached.filter(|it| it.listener == *listener).flat_map(|it| it.hosts.iter().cloned()).collect()
    }
}

/// Whether a host overlaps with any of the others.
fn meets(others: &OrdSet<HostPattern>, host: &HostPattern) -> bool {
    hostname::most_specific(others, host).is_some()
        || (!matches!(host, HostPattern::Exact(_)) && others.iter().any(|it| hostname::covers(host, it)))
}
