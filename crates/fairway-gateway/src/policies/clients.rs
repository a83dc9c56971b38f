//! ClientTrafficPolicies: what holds for the clients of a listener.

use std::num::NonZeroU32;
use std::sync::Arc;

use fairway_model::{BlockedClients, ClientTraffic, ForwardedTrust, HeaderNames, Introduction, ValueTest};
use fairway_objects::annotations::is_of_the_hop;
use fairway_objects::policies::{
    self, ClientTrafficPolicySpec, ForwardedHeaders, HeaderValue, ProxyProtocol,
};
use fairway_pattern::Pattern;

use crate::policies::reading::{Reading, Warning, Wrong};
use crate::policies::tracing;
use crate::policies::value::{is_everybody, number, ranges, some_bytes, some_time, word};

/// A connection of HTTP/2 never has more streams.
const MOST_STREAMS: i64 = 128;

const HEADER_NAMES: [(&str, HeaderNames); 3] =
    [("Plain", HeaderNames::Plain), ("Underscores", HeaderNames::Underscores), ("Any", HeaderNames::Any)];

const ENABLED: [(&str, bool); 2] = [("Enabled", true), ("Disabled", false)];

const UNKNOWN_NAMES: [(&str, bool); 2] = [("Accept", false), ("Reject", true)];

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
        http3: spec.http3.as_ref().map(http3).transpose()?,
        early_data: spec.http3.as_ref().map(early_data).transpose()?.flatten(),
        reject_unknown_names: word("spec.unknownNames", spec.unknown_names.as_deref(), &UNKNOWN_NAMES)?,
        blocked: spec.blocked_clients.as_ref().map(blocked).transpose()?.and_then(BlockedClients::kept),
        max_body: some_bytes("spec.limits.requestBody", limits.request_body.as_ref())?,
        header_names: word("spec.headerNames", spec.header_names.as_deref(), &HEADER_NAMES)?,
        tracing: spec.tracing.as_ref().map(tracing::read).transpose()?,
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

fn http3(of: &policies::Http3) -> Result<bool, Wrong> {
    Ok(word("spec.http3.mode", of.mode.as_deref(), &ENABLED)?.unwrap_or(true))
}

fn early_data(of: &policies::Http3) -> Result<Option<bool>, Wrong> {
    word("spec.http3.earlyData", of.early_data.as_deref(), &ENABLED)
}

fn forwarded(of: &ForwardedHeaders, warnings: &mut Vec<Warning>) -> Result<ForwardedTrust, Wrong> {
    let field = "spec.forwardedHeaders.trustedSources";
    let ranges = ranges(field, &of.trusted_sources)?;
    warnings.extend(is_everybody(&ranges).then(|| everybody(field)));
    let chain = [("Replace", false), ("Append", true)];
    let append = word("spec.forwardedHeaders.chain", of.chain.as_deref(), &chain)?.unwrap_or_default();
    let header = of.address_header.as_deref().map(address_header).transpose()?.flatten();
    let scope = [("All", false), ("Address", true)];
    let address_only = word("spec.forwardedHeaders.scope", of.scope.as_deref(), &scope)?.unwrap_or_default();
    Ok(ForwardedTrust { ranges, header, address_only, append })
}

/// The name of the header with the client's address, where it is not the usual one.
fn address_header(name: &str) -> Result<Option<Arc<str>>, Wrong> {
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_plain || is_of_the_hop(name) {
        let problem = format!(
            "\"{name}\" is not a header with letters, digits and - in its name that does not belong to the connection"
        );
        return Err(Wrong::new("spec.forwardedHeaders.addressHeader", problem));
    }
    let name = name.to_ascii_lowercase();
    Ok((name != "x-forwarded-for").then(|| name.into()))
}

fn blocked(of: &policies::BlockedClients) -> Result<BlockedClients, Wrong> {
    Ok(BlockedClients {
        user_agents: value_tests("spec.blockedClients.userAgents", &of.user_agents)?,
        referers: value_tests("spec.blockedClients.referers", &of.referers)?,
    })
}

fn value_tests(field: &str, values: &[HeaderValue]) -> Result<Vec<ValueTest>, Wrong> {
    let types = [("Exact", false), ("RegularExpression", true)];
    let test = |(at, HeaderValue { type_, value }): (usize, &HeaderValue)| {
        let field = format!("{field}[{at}]");
        let is_pattern = word(&format!("{field}.type"), type_.as_deref(), &types)?.unwrap_or_default();
        if !is_pattern {
            return Ok(ValueTest::AnyCase(value.as_str().into()));
        }
        Pattern::anywhere(value, false).map_err(|why| {
            Wrong::new(format!("{field}.value"), format!("the regular expression {value:?} {why}"))
        })?;
        Ok(ValueTest::Found { pattern: value.as_str().into(), ignore_case: false })
    };
    values.iter().enumerate().map(test).collect()
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

    use fairway_model::{Propagation, SampleRatio, Tracing};
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> Result<Reading<ClientTraffic>, Wrong> {
        read(&serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn all_fields_become_values_of_the_model() {
        let read = of(json!({
            "proxyProtocol": {"mode": "Required", "trustedSources": ["10.1.2.3/8"]},
            "forwardedHeaders": {
                "trustedSources": ["192.0.2.1"],
                "chain": "Append",
                "addressHeader": "CF-Connecting-IP",
                "scope": "Address",
            },
            "http3": {"mode": "Enabled", "earlyData": "Enabled"},
            "headerNames": "Underscores",
            "unknownNames": "Reject",
            "blockedClients": {"userAgents": [{"value": "bot"}, {"type": "RegularExpression", "value": "(?i)^curl/"}]},
            "timeouts": {"idle": "1m", "requestHead": "5s", "tlsHandshake": "2s500ms"},
            "limits": {"connections": 1000, "requestsPerConnection": 50, "concurrentStreams": 16, "requestBody": "8Mi"},
            "tracing": {"samplingRate": {"numerator": 1}, "incomingContext": "Continue", "propagation": "W3CAndB3"},
        }))
        .unwrap();
        let expected = ClientTraffic {
            introduction: Some(Introduction::ProxyProtocol { trusted: vec!["10.0.0.0/8".parse().unwrap()] }),
            forwarded: Some(ForwardedTrust {
                ranges: vec!["192.0.2.1/32".parse().unwrap()],
                header: Some("cf-connecting-ip".into()),
                address_only: true,
                append: true,
            }),
            idle_timeout: Some(Duration::from_secs(60)),
            head_timeout: Some(Duration::from_secs(5)),
            handshake_timeout: Some(Duration::from_millis(2500)),
            requests_per_connection: Some(50),
            connections: NonZeroU32::new(1000),
            streams: NonZeroU32::new(16),
            max_body: Some(8 << 20),
            header_names: Some(HeaderNames::Underscores),
            http3: Some(true),
            early_data: Some(true),
            reject_unknown_names: Some(true),
            blocked: Some(Arc::new(BlockedClients {
                user_agents: vec![
                    ValueTest::AnyCase("bot".into()),
                    ValueTest::Found { pattern: "(?i)^curl/".into(), ignore_case: false },
                ],
                referers: Vec::new(),
            })),
            tracing: Some(Arc::new(Tracing {
                ratio: SampleRatio::new(0.01).unwrap(),
                parent_based: true,
                trust_incoming: true,
                propagation: Propagation::W3cAndB3,
                span_name: None,
            })),
        };
        assert_eq!((read.said, read.warnings), (expected, Vec::new()));
        assert_eq!(of(json!({})).unwrap().said, ClientTraffic::default());
    }

    #[test]
    fn a_value_that_cannot_be_compared_is_named() {
        let value = |value: Value| json!({"blockedClients": {"referers": [{"value": "x"}, value]}});
        let pattern = of(value(json!({"type": "RegularExpression", "value": "("}))).unwrap_err();
        assert_eq!(pattern.field, "spec.blockedClients.referers[1].value");
        assert_eq!(
            of(value(json!({"type": "Prefix"}))).unwrap_err().field,
            "spec.blockedClients.referers[1].type"
        );
    }

    #[test]
    fn the_header_with_the_address_is_one_that_a_proxy_may_pass_on() {
        let of = |name: &str| {
            of(json!({"forwardedHeaders": {"trustedSources": ["10.0.0.1"], "addressHeader": name}}))
        };
        let usual = of("X-Forwarded-For").unwrap().said.forwarded.unwrap();
        assert_eq!(usual.header, None);
        for wrong in ["", "X_Real", "Connection", "Host", "a b"] {
            assert_eq!(of(wrong).unwrap_err().field, "spec.forwardedHeaders.addressHeader", "{wrong}");
        }
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
    fn http3_is_on_where_a_policy_names_it_unless_it_is_disabled() {
        let of = |spec: Value| of(spec).map(|read| read.said.http3);
        assert_eq!(of(json!({})).unwrap(), None);
        assert_eq!(of(json!({"http3": {}})).unwrap(), Some(true));
        assert_eq!(of(json!({"http3": {"mode": "Disabled"}})).unwrap(), Some(false));
        assert_eq!(of(json!({"http3": {"mode": "On"}})).unwrap_err().field, "spec.http3.mode");
    }

    #[test]
    fn early_data_is_taken_only_where_a_policy_says_so_in_a_word() {
        let of = |spec: Value| of(spec).map(|read| read.said.early_data);
        assert_eq!(of(json!({"http3": {}})).unwrap(), None);
        assert_eq!(of(json!({"http3": {"earlyData": "Enabled"}})).unwrap(), Some(true));
        assert_eq!(of(json!({"http3": {"earlyData": "Disabled"}})).unwrap(), Some(false));
        assert_eq!(of(json!({"http3": {"earlyData": "On"}})).unwrap_err().field, "spec.http3.earlyData");
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
