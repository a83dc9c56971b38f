//! TLSRoutes: connections by the name that clients ask for, forwarded as they come.

use fairway_gateway_types::TlsRouteSpec;

use crate::rules::Builder;

/// Reads the backends. There is one rule (Gateway API `TLSRouteSpec.rules`).
pub(crate) fn read(spec: &TlsRouteSpec, builder: &mut Builder<'_>) {
    for (index, rule) in spec.rules.iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        if index > 0 {
            builder.ignored(&at, "a TLSRoute has one rule", "the rule gets no connection");
            continue;
        }
        for (number, it) in rule.backend_refs.iter().enumerate() {
            let at = format!("{at}.backendRefs[{number}]");
            let share = builder.share((index, &at), it.into(), it.weight, Ok(Vec::new()));
            builder.rules.shares.push(share);
        }
        builder.rules.valid += 1;
    }
}
