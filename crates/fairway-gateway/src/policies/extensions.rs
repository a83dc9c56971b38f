//! ExtensionPolicies: services that see requests and responses, in the order in which requests meet them. Each service that cannot be
//! used closes or opens what it is for, as its own `failureMode` says; the others are used all the same.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    BackendKey, BodyMode, Extension, GrpcService, MutationRules, ProcessingPhases, Template, TemplatePart,
    Timeouts,
};
use fairway_objects::object::ObjectKey;
use fairway_objects::policies as types;
use fairway_objects::policies::ExtensionPolicySpec;

use crate::policies::external::{host, is_open};
use crate::policies::reading::Wrong;
use crate::policies::value::{bounded, time, word};

/// How many services a policy may have.
const MAX_SERVICES: usize = 4;
/// How long an answer to a message may take, as in Envoy.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);
/// The longest such time.
const MAX_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How much of a body is held, in bytes.
const BUFFERED: u32 = 1 << 20;
/// The most of a body that may be held, in bytes.
const MAX_BUFFERED: u64 = 8 << 20;
/// How many headers `mutationRules.denied` may name.
const MAX_DENIED: usize = 64;
/// How many namespaces `metadata` may have.
const MAX_NAMESPACES: usize = 8;
/// How long the metadata of a namespace may be as JSON, in bytes.
const MAX_METADATA: usize = 4096;

/// A service of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Service {
    /// What it sees and may do, or why it cannot be used. Its backend has no name before it was looked for.
    pub(crate) extension: Result<Arc<Extension>, Wrong>,
    /// Whether requests go on without it.
    pub(crate) is_open: bool,
}

/// Reads the services of the policy `policy`. A policy that cannot be used as a whole has one, which cannot be used either.
pub(crate) fn read(policy: &ObjectKey, spec: &ExtensionPolicySpec) -> Vec<Service> {
    if let Some(wrong) = unusable(spec) {
        let is_open = !spec.ext_proc.is_empty() && spec.ext_proc.iter().all(may_be_left_out);
        return vec![Service { extension: Err(wrong), is_open }];
    }
    let read = |(index, of): (usize, &types::ExternalProcessor)| Service {
        extension: extension(policy, &format!("spec.extProc[{index}]"), of).map(Arc::new),
        is_open: may_be_left_out(of),
    };
    spec.ext_proc.iter().enumerate().map(read).collect()
}

/// The Services that are asked, in the order of what [`read`] gives.
pub(crate) fn asked(spec: &ExtensionPolicySpec) -> &[types::ExternalProcessor] {
    if unusable(spec).is_some() { &[] } else { &spec.ext_proc }
}

fn unusable(spec: &ExtensionPolicySpec) -> Option<Wrong> {
    match (&spec.refused, spec.ext_proc.len()) {
        (Some(refused), _) => Some(Wrong::new(&refused.field, &refused.problem)),
        (None, 0) => Some(Wrong::new("spec.extProc", "it has no service")),
        (None, 1..=MAX_SERVICES) => None,
        _ => Some(Wrong::new("spec.extProc", format!("it has more than {MAX_SERVICES} services"))),
    }
}

/// A mode that cannot be read closes.
fn may_be_left_out(of: &types::ExternalProcessor) -> bool {
    is_open("", of.failure_mode.as_deref()).unwrap_or_default()
}

fn extension(policy: &ObjectKey, at: &str, of: &types::ExternalProcessor) -> Result<Extension, Wrong> {
    let field = |name: &str| format!("{at}.{name}");
    let message_timeout = message_timeout(&field("messageTimeout"), of.message_timeout.as_deref())?;
    let mode = of.processing_mode.as_ref();
    let unsaid = types::MessageProcessing::default();
    let phases = |name: &str, of: Option<&types::MessageProcessing>| {
        phases(&field(&format!("processingMode.{name}")), of.unwrap_or(&unsaid))
    };
    let usual = Timeouts::default();
    Ok(Extension {
        name: format!("ExtensionPolicy/{policy}").into(),
        service: GrpcService {
            backend: BackendKey("".into()),
            authority: host(&field("host"), of.host.as_deref(), &of.backend_ref, &policy.namespace)?,
            // A stream lives as long as its exchange: only the answer to a message has a time.
            timeouts: Timeouts { connect: usual.connect.min(message_timeout), ..usual },
        },
        message_timeout,
        failure_mode_allow: is_open(&field("failureMode"), of.failure_mode.as_deref())?,
        request: phases("request", mode.and_then(|mode| mode.request.as_ref()))?,
        response: phases("response", mode.and_then(|mode| mode.response.as_ref()))?,
        allow_mode_override: of.allow_mode_override.unwrap_or_default(),
        mutation_rules: of.mutation_rules.as_ref().map(|of| rules(at, of)).transpose()?.unwrap_or_default(),
        max_buffered_body: bounded(
            &field("maxBufferedBytes"),
            of.max_buffered_bytes.as_ref(),
            BUFFERED,
            1..=MAX_BUFFERED,
        )?,
        attributes: attributes(&field("attributes"), &of.attributes)?,
        metadata: metadata(&field("metadata"), of)?,
        picks_endpoint: false,
    })
}

fn message_timeout(field: &str, text: Option<&str>) -> Result<Duration, Wrong> {
    match time(field, text)? {
        None => Ok(MESSAGE_TIMEOUT),
        Some(time) if (Duration::from_millis(1)..=MAX_MESSAGE_TIMEOUT).contains(&time) => Ok(time),
        Some(_) => {
            let problem = format!("\"{}\" is not within 1ms and 1h", text.unwrap_or_default());
            Err(Wrong::new(field, problem))
        }
    }
}

fn phases(at: &str, of: &types::MessageProcessing) -> Result<ProcessingPhases, Wrong> {
    let sent = [("Send", true), ("Skip", false)];
    let bodies = [
        ("None", BodyMode::None),
        ("Streamed", BodyMode::Streamed),
        ("Buffered", BodyMode::Buffered),
        ("BufferedPartial", BodyMode::BufferedPartial),
        ("FullDuplexStreamed", BodyMode::FullDuplexStreamed),
    ];
    let field = |name: &str| format!("{at}.{name}");
    let body = word(&field("body"), of.body.as_deref(), &bodies)?.unwrap_or_default();
    let trailers = word(&field("trailers"), of.trailers.as_deref(), &sent)?.unwrap_or(false);
    if body == BodyMode::FullDuplexStreamed && !trailers {
        let problem = "it is Skip, and a body that is FullDuplexStreamed needs Send";
        return Err(Wrong::new(field("trailers"), problem));
    }
    let headers = word(&field("headers"), of.headers.as_deref(), &sent)?.unwrap_or(true);
    Ok(ProcessingPhases { headers, body, trailers })
}

fn rules(at: &str, of: &types::HeaderMutationRules) -> Result<MutationRules, Wrong> {
    let field = format!("{at}.mutationRules.denied");
    if of.denied.len() > MAX_DENIED {
        return Err(Wrong::new(field, format!("it has more than {MAX_DENIED} names")));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = |name: &String| match !name.is_empty() && name.bytes().all(is_token) {
        true => Ok(name.to_ascii_lowercase().into()),
        false => Err(Wrong::new(&field, format!("\"{name}\" is no name of a header"))),
    };
    Ok(MutationRules {
        allow_path_and_method: of.allow_path_and_method.unwrap_or_default(),
        allow_forwarded: of.allow_forwarded.unwrap_or_default(),
        denied: of.denied.iter().map(name).collect::<Result<_, _>>()?,
        error_on_denied: of.error_on_denied.unwrap_or_default(),
    })
}

/// The attributes that a service may get, of those that Envoy has (Envoy "Attributes").
fn attribute(name: &str) -> Option<TemplatePart> {
    Some(match name {
        "request.path" => TemplatePart::RequestUri,
        "request.url_path" => TemplatePart::Path,
        "request.query" => TemplatePart::Query,
        "request.host" => TemplatePart::HttpHost,
        "request.scheme" => TemplatePart::Scheme,
        "request.method" => TemplatePart::Method,
        "request.protocol" => TemplatePart::Protocol,
        "request.id" => TemplatePart::RequestId,
        "request.referer" => TemplatePart::Field("referer".into()),
        "request.useragent" => TemplatePart::Field("user_agent".into()),
        "source.address" => TemplatePart::Address,
        _ => return None,
    })
}

fn attributes(field: &str, names: &[String]) -> Result<Vec<(Arc<str>, Template)>, Wrong> {
    let mut found: Vec<(Arc<str>, Template)> = Vec::with_capacity(names.len());
    for name in names {
        let part = attribute(name).ok_or_else(|| {
            let known = "request.path, url_path, query, host, scheme, method, protocol, id, referer and useragent, \
                         and source.address";
            Wrong::new(field, format!("\"{name}\" is no attribute that services may get; there are {known}"))
        })?;
        if !found.iter().any(|(known, _)| **known == **name) {
            found.push((name.as_str().into(), Template(vec![part])));
        }
    }
    Ok(found)
}

/// Namespaces and their objects as JSON.
type Metadata = Vec<(Arc<str>, Arc<str>)>;

fn metadata(field: &str, of: &types::ExternalProcessor) -> Result<Metadata, Wrong> {
    if of.metadata.len() > MAX_NAMESPACES {
        return Err(Wrong::new(field, format!("it has more than {MAX_NAMESPACES} namespaces")));
    }
    let written = |(namespace, object): (&String, &_)| {
        let json = serde_json::to_string(object).unwrap_or_default();
        match json.len() {
            0..=MAX_METADATA => Ok((namespace.as_str().into(), json.into())),
            _ => {
                let problem = format!("\"{namespace}\" is longer than {MAX_METADATA} bytes as JSON");
                Err(Wrong::new(field, problem))
            }
        }
    };
    of.metadata.iter().map(written).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn services(spec: Value) -> Vec<Service> {
        read(&ObjectKey::new("shop", "waf"), &serde_json::from_value(spec).expect("a spec"))
    }

    /// The one service of a policy, with these fields besides its Service.
    fn service(more: &Value) -> Service {
        let mut of = json!({"backendRef": {"name": "waf", "port": 9000}});
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        services(json!({"extProc": [of]})).remove(0)
    }

    #[test]
    fn a_service_sees_the_headers_of_both_messages_unless_it_is_said_otherwise() {
        let read = service(&json!({})).extension.unwrap();
        let headers = ProcessingPhases { headers: true, ..ProcessingPhases::default() };
        assert_eq!((read.request, read.response), (headers, headers));
        assert_eq!((&*read.name, &*read.service.authority), ("ExtensionPolicy/shop/waf", "waf.shop.svc"));
        assert_eq!((read.message_timeout, read.max_buffered_body), (MESSAGE_TIMEOUT, BUFFERED));
        assert_eq!(read.service.timeouts.connect, MESSAGE_TIMEOUT);
        assert!(!read.failure_mode_allow && read.mutation_rules == MutationRules::default());
    }

    #[test]
    fn all_fields_are_read() {
        let duplex = json!({"headers": "Skip", "body": "FullDuplexStreamed", "trailers": "Send"});
        let read = service(&json!({
            "host": "waf.test",
            "messageTimeout": "1h",
            "failureMode": "Open",
            "processingMode": {"request": duplex, "response": {"body": "BufferedPartial"}},
            "allowModeOverride": true,
            "mutationRules": {"allowPathAndMethod": true, "allowForwarded": true, "denied": ["X-User"],
                              "errorOnDenied": true},
            "maxBufferedBytes": "8Mi",
            "attributes": ["request.path", "source.address", "request.path"],
            "metadata": {"a.test": {"rule": [1, {"x": null}]}},
        }));
        let Service { extension, is_open: true } = read else { panic!("{read:?}") };
        let read = extension.unwrap();
        let phases = |headers, body, trailers| ProcessingPhases { headers, body, trailers };
        assert_eq!(read.request, phases(false, BodyMode::FullDuplexStreamed, true));
        assert_eq!(read.response, phases(true, BodyMode::BufferedPartial, false));
        assert_eq!((read.message_timeout, read.max_buffered_body), (MAX_MESSAGE_TIMEOUT, 8 << 20));
        let attributes: Vec<_> = read.attributes.iter().map(|(name, of)| format!("{name} {of}")).collect();
        assert_eq!(attributes, ["request.path $request_uri", "source.address $remote_addr"]);
        assert_eq!(read.metadata, [("a.test".into(), r#"{"rule":[1,{"x":null}]}"#.into())]);
        let rules = &read.mutation_rules;
        assert!(rules.allow_path_and_method && rules.allow_forwarded && rules.error_on_denied);
        assert_eq!(rules.denied, ["x-user".into()]);
        assert!(read.failure_mode_allow && read.allow_mode_override);
    }

    #[test]
    fn what_cannot_be_read_closes_or_opens_as_it_says() {
        for (more, field) in [
            (json!({"host": "a b"}), "host"),
            (json!({"messageTimeout": "0s"}), "messageTimeout"),
            (json!({"messageTimeout": "1h1ms"}), "messageTimeout"),
            (json!({"processingMode": {"request": {"headers": "Yes"}}}), "processingMode.request.headers"),
            (json!({"processingMode": {"response": {"body": "All"}}}), "processingMode.response.body"),
            (
                json!({"processingMode": {"request": {"body": "FullDuplexStreamed"}}}),
                "processingMode.request.trailers",
            ),
            (json!({"mutationRules": {"denied": ["a b"]}}), "mutationRules.denied"),
            (json!({"maxBufferedBytes": "9Mi"}), "maxBufferedBytes"),
            (json!({"maxBufferedBytes": 0}), "maxBufferedBytes"),
            (json!({"attributes": ["request.headers"]}), "attributes"),
            (json!({"metadata": {"a": {"b": "x".repeat(4096)}}}), "metadata"),
        ] {
            for mode in ["Closed", "Open"] {
                let mut more = more.clone();
                more["failureMode"] = json!(mode);
                let read = service(&more);
                let wrong = read.extension.unwrap_err();
                assert_eq!(wrong.field, format!("spec.extProc[0].{field}"), "{more}");
                assert_eq!(read.is_open, mode == "Open", "{more}");
            }
        }
        let read = service(&json!({"failureMode": "Ajar"}));
        assert_eq!(
            (read.extension.unwrap_err().field, read.is_open),
            ("spec.extProc[0].failureMode".into(), false)
        );
    }

    #[test]
    fn a_policy_that_cannot_be_used_as_a_whole_is_open_only_where_all_its_services_are() {
        let of = |mode: &str| json!({"backendRef": {"name": "waf", "port": 9000}, "failureMode": mode});
        for (spec, is_open) in [
            (json!({}), false),
            (json!({"extProc": vec![of("Open"); 5]}), true),
            (json!({"extProc": [of("Open"), of("Open"), of("Open"), of("Closed"), of("Open")]}), false),
        ] {
            let read = services(spec.clone());
            assert_eq!((read.len(), read[0].is_open), (1, is_open), "{spec}");
            assert_eq!(read[0].extension.as_ref().unwrap_err().field, "spec.extProc", "{spec}");
        }
        let refused = types::RefusedField { field: "spec.extproc".into(), problem: "is unknown".into() };
        let spec = ExtensionPolicySpec { refused: Some(refused), ..ExtensionPolicySpec::default() };
        let read = read(&ObjectKey::new("shop", "waf"), &spec).remove(0);
        assert_eq!((read.extension, read.is_open), (Err(Wrong::new("spec.extproc", "is unknown")), false));
    }
}
