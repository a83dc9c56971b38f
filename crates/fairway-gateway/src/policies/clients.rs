//! Reads ClientTrafficPolicies.

use std::num::NonZeroU32;
use std::sync::Arc;

use fairway_model::{
    BlockedClients, ClientTraffic, ForwardedTrust, HeaderNames, ProxyProtocolMode, ValueTest,
};
use fairway_objects::annotations::is_hop_header;
use fairway_objects::policies::{
    self, ClientTrafficPolicySpec, ForwardedHeaders, HeaderValue, ProxyProtocol,
};
use fairway_pattern::Pattern;

use crate::policies::reading::{PolicyError, PolicyReading, PolicyWarning};
use crate::policies::tracing;
use crate::policies::value::{covers_everyone, enum_value, number, positive_bytes, positive_time, ranges};

/// Maximum concurrent streams of an HTTP/2 connection.
const MAX_STREAMS: i64 = 128;

const HEADER_NAMES: [(&str, HeaderNames); 3] =
    [("Plain", HeaderNames::Plain), ("Underscores", HeaderNames::Underscores), ("Any", HeaderNames::Any)];

const ENABLED: [(&str, bool); 2] = [("Enabled", true), ("Disabled", false)];

const UNKNOWN_NAMES: [(&str, bool); 2] = [("Accept", false), ("Reject", true)];

/// Reads a policy.
///
/// # Errors
/// The first unusable value.
pub(crate) fn read(spec: &ClientTrafficPolicySpec) -> Result<PolicyReading<ClientTraffic>, PolicyError> {
    let timeouts = spec.timeouts.clone().unwrap_or_default();
    let limits = spec.limits.clone().unwrap_or_default();
    let mut warnings = Vec::new();
    if limits.concurrent_streams.is_some_and(|streams| streams > MAX_STREAMS) {
        return Err(PolicyError::new(
            "spec.limits.concurrentStreams",
            format!("it is more than {MAX_STREAMS}"),
        ));
    }
    let introduction =
        spec.proxy_protocol.as_ref().map(|it| proxy_protocol(it, &mut warnings)).transpose()?;
    let settings = ClientTraffic {
        proxy_protocol: introduction,
        forwarded: spec
            .forwarded_headers
            .as_ref()
            .map(|it| forwarded_trust(it, &mut warnings))
            .transpose()?,
        idle_timeout: positive_time("spec.timeouts.idle", timeouts.idle.as_deref())?,
        head_timeout: positive_time("spec.timeouts.requestHead", timeouts.request_head.as_deref())?,
        handshake_timeout: positive_time("spec.timeouts.tlsHandshake", timeouts.tls_handshake.as_deref())?,
        requests_per_connection: number(
            "spec.limits.requestsPerConnection",
            limits.requests_per_connection,
            1,
        )?,
        connections: positive_number("spec.limits.connections", limits.connections)?,
        streams: positive_number("spec.limits.concurrentStreams", limits.concurrent_streams)?,
        http3: spec.http3.as_ref().map(http3).transpose()?,
        early_data: spec.http3.as_ref().map(early_data).transpose()?.flatten(),
        reject_unknown_names: enum_value("spec.unknownNames", spec.unknown_names.as_deref(), &UNKNOWN_NAMES)?,
        blocked: spec
            .blocked_clients
            .as_ref()
            .map(blocked)
            .transpose()?
            .and_then(BlockedClients::if_not_empty),
        max_body: positive_bytes("spec.limits.requestBody", limits.request_body.as_ref())?,
        header_names: enum_value("spec.headerNames", spec.header_names.as_deref(), &HEADER_NAMES)?,
        tracing: spec.tracing.as_ref().map(tracing::read).transpose()?,
    };
    Ok(PolicyReading { value: settings, warnings })
}

fn positive_number(field: &str, value: Option<i64>) -> Result<Option<NonZeroU32>, PolicyError> {
    Ok(number::<u32>(field, value, 1)?.and_then(NonZeroU32::new))
}

fn proxy_protocol(
    spec: &ProxyProtocol,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<ProxyProtocolMode, PolicyError> {
    let field = "spec.proxyProtocol.trustedSources";
    let trusted = ranges(field, &spec.trusted_sources)?;
    let required =
        enum_value("spec.proxyProtocol.mode", Some(&spec.mode), &[("Required", true), ("Off", false)])?;
    match (required, trusted.is_empty()) {
        (Some(true), true) => Err(PolicyError::new(field, "mode Required needs who may send the header")),
        (Some(true), false) => {
            warnings.extend(covers_everyone(&trusted).then(|| everyone_warning(field)));
            Ok(ProxyProtocolMode::Required { trusted })
        }
        (Some(false), false) => Err(PolicyError::new(field, "mode Off has no trustedSources")),
        (Some(false), true) => Ok(ProxyProtocolMode::None),
        (None, _) => Err(PolicyError::new("spec.proxyProtocol.mode", "it is neither Required nor Off")),
    }
}

fn http3(spec: &policies::Http3) -> Result<bool, PolicyError> {
    Ok(enum_value("spec.http3.mode", spec.mode.as_deref(), &ENABLED)?.unwrap_or(true))
}

fn early_data(spec: &policies::Http3) -> Result<Option<bool>, PolicyError> {
    enum_value("spec.http3.earlyData", spec.early_data.as_deref(), &ENABLED)
}

fn forwarded_trust(
    spec: &ForwardedHeaders,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<ForwardedTrust, PolicyError> {
    let field = "spec.forwardedHeaders.trustedSources";
    let ranges = ranges(field, &spec.trusted_sources)?;
    warnings.extend(covers_everyone(&ranges).then(|| everyone_warning(field)));
    let chain = [("Replace", false), ("Append", true)];
    let append =
        enum_value("spec.forwardedHeaders.chain", spec.chain.as_deref(), &chain)?.unwrap_or_default();
    let header = spec.address_header.as_deref().map(address_header).transpose()?.flatten();
    let scope = [("All", false), ("Address", true)];
    let address_only =
        enum_value("spec.forwardedHeaders.scope", spec.scope.as_deref(), &scope)?.unwrap_or_default();
    Ok(ForwardedTrust { ranges, header, address_only, append })
}

/// The header with the client address, if it is not the default.
fn address_header(name: &str) -> Result<Option<Arc<str>>, PolicyError> {
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_plain || is_hop_header(name) {
        let problem = format!(
            "\"{name}\" is not a header with letters, digits and - in its name that does not belong to the connection"
        );
        return Err(PolicyError::new("spec.forwardedHeaders.addressHeader", problem));
    }
    let name = name.to_ascii_lowercase();
    Ok((name != "x-forwarded-for").then(|| name.into()))
}

fn blocked(spec: &policies::BlockedClients) -> Result<BlockedClients, PolicyError> {
    Ok(BlockedClients {
        user_agents: value_tests("spec.blockedClients.userAgents", &spec.user_agents)?,
        referers: value_tests("spec.blockedClients.referers", &spec.referers)?,
    })
}

fn value_tests(field: &str, values: &[HeaderValue]) -> Result<Vec<ValueTest>, PolicyError> {
    let types = [("Exact", false), ("RegularExpression", true)];
    let test = |(at, HeaderValue { type_, value }): (usize, &HeaderValue)| {
        let field = format!("{field}[{at}]");
        let is_pattern = enum_value(&format!("{field}.type"), type_.as_deref(), &types)?.unwrap_or_default();
        if !is_pattern {
            return Ok(ValueTest::AnyCase(value.as_str().into()));
        }
        Pattern::anywhere(value, false).map_err(|why| {
            PolicyError::new(format!("{field}.value"), format!("the regular expression {value:?} {why}"))
        })?;
        Ok(ValueTest::Found { pattern: value.as_str().into(), ignore_case: false })
    };
    values.iter().enumerate().map(test).collect()
}

fn everyone_warning(field: &str) -> PolicyWarning {
    PolicyWarning {
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

    fn parse_spec(spec: Value) -> Result<PolicyReading<ClientTraffic>, PolicyError> {
        read(&serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn all_fields_become_values_of_the_model() {
        let read = parse_spec(json!({
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
            proxy_protocol: Some(ProxyProtocolMode::Required {
                trusted: vec!["10.0.0.0/8".parse().unwrap()],
            }),
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
        assert_eq!((read.value, read.warnings), (expected, Vec::new()));
        assert_eq!(parse_spec(json!({})).unwrap().value, ClientTraffic::default());
    }

    #[test]
    fn a_value_that_cannot_be_compared_is_named() {
        let value = |value: Value| json!({"blockedClients": {"referers": [{"value": "x"}, value]}});
        let pattern = parse_spec(value(json!({"type": "RegularExpression", "value": "("}))).unwrap_err();
        assert_eq!(pattern.field, "spec.blockedClients.referers[1].value");
        assert_eq!(
            parse_spec(value(json!({"type": "Prefix"}))).unwrap_err().field,
            "spec.blockedClients.referers[1].type"
        );
    }

    #[test]
    fn the_address_header_must_be_one_that_a_proxy_may_forward() {
        let policy_of = |name: &str| {
            parse_spec(json!({"forwardedHeaders": {"trustedSources": ["10.0.0.1"], "addressHeader": name}}))
        };
        let usual = policy_of("X-Forwarded-For").unwrap().value.forwarded.unwrap();
        assert_eq!(usual.header, None);
        for wrong in ["", "X_Real", "Connection", "Host", "a b"] {
            assert_eq!(policy_of(wrong).unwrap_err().field, "spec.forwardedHeaders.addressHeader", "{wrong}");
        }
    }

    #[test]
    fn a_connection_has_no_more_streams_than_there_can_be() {
        let limits_for = |streams: i64| parse_spec(json!({"limits": {"concurrentStreams": streams}}));
        assert_eq!(limits_for(128).unwrap().value.streams, NonZeroU32::new(128));
        for wrong in [129, 0] {
            assert_eq!(limits_for(wrong).unwrap_err().field, "spec.limits.concurrentStreams", "{wrong}");
        }
    }

    #[test]
    fn http3_is_on_where_a_policy_names_it_unless_it_is_disabled() {
        let http3_for = |spec: Value| parse_spec(spec).map(|read| read.value.http3);
        assert_eq!(http3_for(json!({})).unwrap(), None);
        assert_eq!(http3_for(json!({"http3": {}})).unwrap(), Some(true));
        assert_eq!(http3_for(json!({"http3": {"mode": "Disabled"}})).unwrap(), Some(false));
        assert_eq!(http3_for(json!({"http3": {"mode": "On"}})).unwrap_err().field, "spec.http3.mode");
    }

    #[test]
    fn early_data_requires_an_explicit_policy() {
        let early_data_for = |spec: Value| parse_spec(spec).map(|read| read.value.early_data);
        assert_eq!(early_data_for(json!({"http3": {}})).unwrap(), None);
        assert_eq!(early_data_for(json!({"http3": {"earlyData": "Enabled"}})).unwrap(), Some(true));
        assert_eq!(early_data_for(json!({"http3": {"earlyData": "Disabled"}})).unwrap(), Some(false));
        assert_eq!(
            early_data_for(json!({"http3": {"earlyData": "On"}})).unwrap_err().field,
            "spec.http3.earlyData"
        );
    }

    #[test]
    fn the_proxy_protocol_is_accepted_only_from_trusted_sources() {
        let proxy_for = |proxy: Value| parse_spec(json!({"proxyProtocol": proxy}));
        assert_eq!(
            proxy_for(json!({"mode": "Off"})).unwrap().value.proxy_protocol,
            Some(ProxyProtocolMode::None)
        );
        for wrong in [
            json!({"mode": "Required"}),
            json!({"mode": "Off", "trustedSources": ["10.0.0.0/8"]}),
            json!({"mode": "On"}),
            json!({}),
        ] {
            assert!(proxy_for(wrong.clone()).unwrap_err().field.starts_with("spec.proxyProtocol"), "{wrong}");
        }
        let open = proxy_for(json!({"mode": "Required", "trustedSources": ["0.0.0.0/0"]})).unwrap();
        assert_eq!(open.warnings[0].code, "trusts-everybody");
    }
}
