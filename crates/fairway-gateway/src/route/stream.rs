//! TLSRoutes, TCPRoutes and UDPRoutes: connections and datagrams, forwarded as they come. Of a TLSRoute the name that
//! clients ask for chooses; the others have nothing to choose by, so that the oldest one serves a listener.

use fairway_model::RouteFilters;
use fairway_objects::gateway_api::StreamRouteRule;
use fairway_objects::object::Kind;

use crate::backend::Speaks;
use crate::rules::Builder;

/// Whether at most one route of the kind serves a listener (GEP-2644, GEP-2645): the oldest, then the first by name.
pub(crate) fn serves_alone(kind: Kind) -> bool {
    matches!(kind, Kind::TcpRoute | Kind::UdpRoute)
}

/// Reads the backends. There is one rule (Gateway API `TLSRouteSpec.rules`).
pub(super) fn read(rules: &[StreamRouteRule], builder: &mut Builder<'_>) {
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        if index > 0 {
            let (kind, speaks) = (builder.resolver.route.kind.name(), builder.resolver.speaks);
            builder.ignored(&at, &format!("a {kind} has one rule"), without_effect(speaks));
            continue;
        }
        for (number, it) in rule.backend_refs.iter().enumerate() {
            let at = format!("{at}.backendRefs[{number}]");
            let share = builder.share(index, &at, it.into(), it.weight, Ok(RouteFilters::default()), None);
            builder.rules.shares.push(share);
        }
        builder.rules.valid += 1;
    }
}

fn without_effect(speaks: Speaks) -> &'static str {
    match speaks {
        Speaks::Datagrams => "the rule gets no datagram",
        _ => "the rule gets no connection",
    }
}
