//! ClientTrafficPolicies: what holds for the clients of a listener.

use std::num::NonZeroU32;

use fairway_model::{ClientTraffic, ForwardedTrust, Introduction};
use fairway_objects::policies::{ClientTrafficPolicySpec, ForwardedHeaders, ProxyProtocol};

use crate::policies::reading::{Reading, Warning, Wrong};
use crate::policies::value::{is_everybody, number, ranges, some_time, word};

/// A connection of HTTP/2 never has more streams.
const MOST_STREAMS: i64 = 128;

/// Reads what a policy says.
///
/// # Errors
/// The first value that cannot be used.
pub(crate) fn read(spec: &ClientTrafficPolicySpec) -> Result<Reading<ClientTraffic>, Wrong> {
    let timeouts = spec.timeouts.clone().unwrap_or_default();
    let limits = spec.limits.clone().unwrap_or_default();
    let mut warnings = Vec::new();
    if limits.concurrent_streams.is_some_and(|streams| streams > MOST_STREAMS) {
        return Err(Wrong::new("spec.limits.concurrentStreams", format!("it is more than {MOST_STREAMS}")));
    }
    let introduction = spec.proxy_protocol.as_ref().map(|it| introduction(it, &mut warnings)).transpose()?;
    let said = ClientTraffic {
        introduction,
        forwarded: spec.forwarded_headers.as_ref().map(|it| forwarded(it, &mut warnings)).transpose()?,
        idle_timeout: some_time("spec.timeouts.idle", timeouts.idle.as_deref())?,
        head_timeout: some_time("spec.timeouts.requestHead", timeouts.request_head.as_deref())?,
        handshake_timeout: some_time("spec.timeouts.tlsHandshake", timeouts.tls_handshake.as_deref())?,
        requests_per_connection: number(
            "spec.limits.requestsPerConnection",
            limits.requests_per_connection,
            1,
        )?,
        connections: some("spec.limits.connections", limits.connections)?,
        streams: some("spec.limits.concurrentStreams", limits.concurrent_streams)?,
    };
    Ok(Reading { said, warnings })
}

fn some(field: &str, value: Option<i64>) -> Result<Option<NonZeroU32>, Wrong> {
    Ok(number::<u32>(field, value, 1)?.and_then(NonZeroU32::new))
}

fn introduction(of: &ProxyProtocol, warnings: &mut Vec<Warning>) -> Result<Introduction, Wrong> {
    let field = "spec.proxyProtocol.trustedSources";
    let trusted = ranges(field, &of.trusted_sources)?;
    let required = word("spec.proxyProtocol.mode", Some(&of.mode), &[("Required", true), ("Off", false)])?;
    match (required, trusted.is_empty()) {
        (Some(true), true) => Err(Wrong::new(field, "mode Required needs who may send the header")),
        (Some(true), false) => {
            warnings.extend(is_everybody(&trusted).then(|| everybody(field)));
            Ok(Introduction::ProxyProtocol { trusted })
        }
        (Some(false), false) => Err(Wrong::new(field, "mode Off has no trustedSources")),
        (Some(false), true) => Ok(Introduction::None),
        (None, _) => Err(Wrong::new("spec.proxyProtocol.mode", "it is neither Required nor Off")),
    }
}

fn forwarded(of: &ForwardedHeaders, warnings: &mut Vec<Warning>) -> Result<ForwardedTrust, Wrong> {
    let field = "spec.forwardedHeaders.trustedSources";
    let ranges = ranges(field, &of.trusted_sources)?;
    warnings.extend(is_everybody(&ranges).then(|| everybody(field)));
    let chain = [("Replace", false), ("Append", true)];
    let append = word("spec.forwardedHeaders.chain", of.chain.as_deref(), &chain)?.unwrap_or_default();
    Ok(ForwardedTrust { ranges, append })
}

fn everybody(field: &str) -> Warning {
    Warning {
        code: "trusts-everybody",
        field: field.to_owned(),
        problem: "the ranges have all addresses of a family".to_owned(),
        consequence: "any client can claim any address, and source ranges keep nobody out",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> Result<Reading<ClientTraffic>, Wrong> {
        read(&serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn all_fields_become_values_of_the_model() {
        let read = of(json!({
            "proxyProtocol": {"mode": "Required", "trustedSources": ["10.1.2.3/8"]},
            "forwardedHeaders": {"trustedSources": ["192.0.2.1"], "chain": "Append"},
            "timeouts": {"idle": "1m", "requestHead": "5s", "tlsHandshake": "2s500ms"},
            "limits": {"connections": 1000, "requestsPerConnection": 50, "concurrentStreams": 16},
        }))
        .unwrap();
        let expected = ClientTraffic {
            introduction: Some(Introduction::ProxyProtocol { trusted: vec!["10.0.0.0/8".parse().unwrap()] }),
            forwarded: Some(ForwardedTrust { ranges: vec!["192.0.2.1/32".parse().unwrap()], append: true }),
            idle_timeout: Some(Duration::from_secs(60)),
            head_timeout: Some(Duration::from_secs(5)),
            handshake_timeout: Some(Duration::from_millis(2500)),
            requests_per_connection: Some(50),
            connections: NonZeroU32::new(1000),
            streams: NonZeroU32::new(16),
        };
        assert_eq!((read.said, read.warnings), (expected, Vec::new()));
        assert_eq!(of(json!({})).unwrap().said, ClientTraffic::default());
    }

    #[test]
    fn a_connection_has_no_more_streams_than_there_can_be() {
        let of = |streams: i64| of(json!({"limits": {"concurrentStreams": streams}}));
        assert_eq!(of(128).unwrap().said.streams, NonZeroU32::new(128));
        for wrong in [129, 0] {
            assert_eq!(of(wrong).unwrap_err().field, "spec.limits.concurrentStreams", "{wrong}");
        }
    }

    #[test]
    fn the_proxy_protocol_is_taken_from_those_who_are_named_and_from_nobody_else() {
        let of = |proxy: Value| of(json!({"proxyProtocol": proxy}));
        assert_eq!(of(json!({"mode": "Off"})).unwrap().said.introduction, Some(Introduction::None));
        for wrong in [
            json!({"mode": "Required"}),
            json!({"mode": "Off", "trustedSources": ["10.0.0.0/8"]}),
            json!({"mode": "On"}),
            json!({}),
        ] {
            assert!(of(wrong.clone()).unwrap_err().field.starts_with("spec.proxyProtocol"), "{wrong}");
        }
        let open = of(json!({"mode": "Required", "trustedSources": ["0.0.0.0/0"]})).unwrap();
        assert_eq!(open.warnings[0].code, "trusts-everybody");
    }
}
