//! TLSRoutes, TCPRoutes and UDPRoutes: connections and datagrams, forwarded unchanged. SNI selects TLSRoutes; the
//! other kinds have nothing to select by, so the oldest route serves a listener.

use fairway_model::RouteFilters;
use fairway_objects::gateway_api::StreamRouteRule;
use fairway_objects::object::Kind;

use crate::backend::RouteProtocol;
use crate::rules::RuleBuilder;

/// Whether at most one route of the kind serves a listener (GEP-2644, GEP-2645): the oldest, then the first by name.
pub(crate) fn serves_alone(kind: Kind) -> bool {
    matches!(kind, Kind::TcpRoute | Kind::UdpRoute)
}

/// Reads the backends. There is only one rule (Gateway API `TLSRouteSpec.rules`).
pub(super) fn read(rules: &[StreamRouteRule], builder: &mut RuleBuilder<'_>) {
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        if index > 0 {
            let (kind, speaks) = (builder.resolver.route.kind.name(), builder.resolver.speaks);
            builder.report_ignored(&at, &format!("a {kind} has one rule"), without_effect(speaks));
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

fn without_effect(speaks: RouteProtocol) -> &'static str {
    match speaks {
        RouteProtocol::Datagrams => "the rule gets no datagram",
        _ => "the rule gets no connection",
    }
}
