//! `extension`: a service that sees the requests and responses of an Ingress, and may change them. The fields are those of an entry of
//! `spec.extProc` in an ExtensionPolicy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    BackendKey, BodyMode, Extension, GrpcService, MutationRules, ProcessingPhases, Template, TemplatePart,
    Timeouts,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::annotations::value::{field_of_policies, header_name};
use crate::backend::BackendRef;
use crate::balance::Balance;
use crate::duration;
use crate::object::ObjectKey;
use crate::policies::Size;
use crate::transport::Transport;

/// How long the answer to a message may take, as in Envoy.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);
/// The longest such time.
const MAX_MESSAGE_TIMEOUT: Duration = Duration::from_secs(3600);
/// How much of a body is held, in bytes.
const BUFFERED: u64 = 1 << 20;
/// The most of a body that may be held, in bytes.
const MAX_BUFFERED: u64 = 8 << 20;
/// How many headers may be denied.
const MAX_DENIED: usize = 64;
/// How many namespaces of metadata there may be.
const MAX_NAMESPACES: usize = 8;
/// How long the metadata of a namespace may be as JSON, in bytes.
const MAX_METADATA: usize = 4096;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wanted {
    backend_ref: Service,
    host: Option<String>,
    message_timeout: Option<String>,
    failure_mode: Option<String>,
    processing_mode: Modes,
    allow_mode_override: bool,
    mutation_rules: Rules,
    max_buffered_bytes: Option<Size>,
    attributes: Vec<String>,
    metadata: BTreeMap<String, Map<String, Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Service {
    name: String,
    port: u16,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Modes {
    request: Mode,
    response: Mode,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Mode {
    headers: Option<String>,
    body: Option<String>,
    trailers: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rules {
    allow_path_and_method: bool,
    allow_forwarded: bool,
    denied: Vec<String>,
    error_on_denied: bool,
}

/// Reads it for the Ingress `key`, whose namespace has the Service.
///
/// # Errors
/// With what is wrong.
pub fn extension(key: &ObjectKey, value: &str) -> Result<(Extension, BackendRef), String> {
    let wanted: Wanted = field_of_policies(value)?;
    let Service { name, port } = &wanted.backend_ref;
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(is_label) || *port == 0 {
        return Err("backendRef has not the name of a Service and the number of its port".to_owned());
    }
    let service = ObjectKey::new(&key.namespace, name);
    let backend = BackendRef::new(service, port.to_string().into(), &Transport::H2c, &Balance::default());
    let usual = Timeouts::default();
    let message_timeout = message_timeout(wanted.message_timeout.as_deref())?;
    let extension = Extension {
        name: format!("Ingress/{key}").into(),
        service: GrpcService {
            backend: BackendKey(Arc::clone(&backend.key.0)),
            authority: authority(wanted.host.as_deref(), name, &key.namespace)?,
            // A stream lives as long as its exchange: only the answer to a message has a time.
            timeouts: Timeouts { connect: usual.connect.min(message_timeout), ..usual },
        },
        message_timeout,
        failure_mode_allow: word(
            "failureMode",
            wanted.failure_mode.as_deref(),
            &[("Closed", false), ("Open", true)],
        )?
        .unwrap_or(false),
        request: phases("request", &wanted.processing_mode.request)?,
        response: phases("response", &wanted.processing_mode.response)?,
        allow_mode_override: wanted.allow_mode_override,
        mutation_rules: rules(&wanted.mutation_rules)?,
        max_buffered_body: buffered(wanted.max_buffered_bytes.as_ref())?,
        attributes: attributes(&wanted.attributes)?,
        metadata: metadata(&wanted.metadata)?,
        picks_endpoint: false,
    };
    Ok((extension, backend))
}

fn message_timeout(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(MESSAGE_TIMEOUT) };
    let within =
        duration::read(text).filter(|time| (Duration::from_millis(1)..=MAX_MESSAGE_TIMEOUT).contains(time));
    within.ok_or_else(|| "messageTimeout is no duration from 1ms to 1h, such as 500ms".to_owned())
}

fn authority(host: Option<&str>, service: &str, namespace: &str) -> Result<Arc<str>, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match host {
        None => Ok(format!("{service}.{namespace}.svc").into()),
        Some(host) if !host.is_empty() && host.chars().all(plain) => Ok(host.into()),
        Some(_) => Err("host is no host".to_owned()),
    }
}

/// The word of an enumeration; `None` where nothing is said.
fn word<T: Copy>(field: &str, value: Option<&str>, known: &[(&str, T)]) -> Result<Option<T>, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, meant)| *meant);
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(Some).ok_or_else(|| format!("{field} is none of {}", names()))
}

fn phases(message: &str, mode: &Mode) -> Result<ProcessingPhases, String> {
    let field = |name: &str| format!("processingMode.{message}.{name}");
    let sent = [("Send", true), ("Skip", false)];
    let bodies = [
        ("None", BodyMode::None),
        ("Streamed", BodyMode::Streamed),
        ("Buffered", BodyMode::Buffered),
        ("BufferedPartial", BodyMode::BufferedPartial),
        ("FullDuplexStreamed", BodyMode::FullDuplexStreamed),
    ];
    let headers = word(&field("headers"), mode.headers.as_deref(), &sent)?.unwrap_or(true);
    let body = word(&field("body"), mode.body.as_deref(), &bodies)?.unwrap_or_default();
    let trailers = word(&field("trailers"), mode.trailers.as_deref(), &sent)?.unwrap_or(false);
    if body == BodyMode::FullDuplexStreamed && !trailers {
        return Err(format!(
            "{} is Skip, and a body that is FullDuplexStreamed needs Send",
            field("trailers")
        ));
    }
    Ok(ProcessingPhases { headers, body, trailers })
}

fn rules(of: &Rules) -> Result<MutationRules, String> {
    if of.denied.len() > MAX_DENIED {
        return Err(format!("mutationRules.denied has more than {MAX_DENIED} names"));
    }
    let name = |name: &String| header_name(name).map(|()| name.to_ascii_lowercase().into());
    Ok(MutationRules {
        allow_path_and_method: of.allow_path_and_method,
        allow_forwarded: of.allow_forwarded,
        denied: of.denied.iter().map(name).collect::<Result<_, _>>()?,
        error_on_denied: of.error_on_denied,
    })
}

fn buffered(size: Option<&Size>) -> Result<u32, String> {
    let bytes = size.map_or(Some(BUFFERED), Size::bytes).filter(|bytes| (1..=MAX_BUFFERED).contains(bytes));
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| "maxBufferedBytes is no size from 1 to 8Mi".to_owned())
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

fn attributes(names: &[String]) -> Result<Vec<(Arc<str>, Template)>, String> {
    let mut found: Vec<(Arc<str>, Template)> = Vec::new();
    for name in names {
        let part = attribute(name).ok_or(
            "attributes has another name than request.path, url_path, query, host, scheme, method, protocol, id, referer and \
             useragent, and source.address",
        )?;
        if !found.iter().any(|(known, _)| **known == **name) {
            found.push((name.as_str().into(), Template(vec![part])));
        }
    }
    Ok(found)
}

/// Namespaces and their objects as JSON.
type Metadata = Vec<(Arc<str>, Arc<str>)>;

fn metadata(of: &BTreeMap<String, Map<String, Value>>) -> Result<Metadata, String> {
    if of.len() > MAX_NAMESPACES {
        return Err(format!("metadata has more than {MAX_NAMESPACES} namespaces"));
    }
    let written = |(namespace, object): (&String, &Map<String, Value>)| {
        let json = Value::Object(object.clone()).to_string();
        match json.len() {
            0..=MAX_METADATA => Ok((namespace.as_str().into(), json.into())),
            _ => Err(format!("metadata of a namespace is longer than {MAX_METADATA} bytes as JSON")),
        }
    };
    of.iter().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<(Extension, BackendRef), String> {
        extension(&ObjectKey::new("shop", "web"), value)
    }

    #[test]
    fn a_service_sees_headers_unless_more_is_said() {
        let Ok((of, backend)) = read(r#"{"backendRef": {"name": "filter", "port": 9000}}"#) else {
            panic!("it is read")
        };
        assert_eq!((&*of.name, &*of.service.authority), ("Ingress/shop/web", "filter.shop.svc"));
        assert_eq!((&*backend.key.0, of.service.backend), ("shop/filter:9000;h2c", backend.key.clone()));
        let headers = ProcessingPhases { headers: true, ..ProcessingPhases::default() };
        assert_eq!((of.request, of.response, of.failure_mode_allow), (headers, headers, false));
        assert_eq!((of.message_timeout, of.max_buffered_body), (MESSAGE_TIMEOUT, 1 << 20));
    }

    #[test]
    fn every_field_is_read() {
        let Ok((of, _)) = read(
            r#"{"backendRef": {"name": "filter", "port": 9000}, "host": "filter.test", "messageTimeout": "1s", "failureMode": "Open",
            "processingMode": {"request": {"headers": "Skip", "body": "Buffered"},
              "response": {"body": "FullDuplexStreamed", "trailers": "Send"}},
            "allowModeOverride": true, "mutationRules": {"allowForwarded": true, "denied": ["X-Team"], "errorOnDenied": true},
            "maxBufferedBytes": "64Ki", "attributes": ["request.path", "request.path"], "metadata": {"a": {"b": [1]}}}"#,
        ) else {
            panic!("it is read")
        };
        assert_eq!((&*of.service.authority, of.message_timeout.as_secs()), ("filter.test", 1));
        assert_eq!((of.request.headers, of.request.body), (false, BodyMode::Buffered));
        assert!(of.response.trailers && of.failure_mode_allow && of.allow_mode_override);
        assert_eq!(of.mutation_rules.denied, ["x-team".into()]);
        assert_eq!((of.max_buffered_body, of.attributes.len()), (64 << 10, 1));
        assert_eq!(of.metadata, [("a".into(), r#"{"b":[1]}"#.into())]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let service = r#""backendRef": {"name": "filter", "port": 9000}"#;
        for (value, problem) in [
            ("filter:9000".to_owned(), "JSON"),
            ("{}".to_owned(), "backendRef"),
            (r#"{"backendRef": {"name": "a/b", "port": 9000}}"#.to_owned(), "backendRef"),
            (r#"{"backendRef": {"name": "a", "port": 0}}"#.to_owned(), "backendRef"),
            (r#"{"backendRef": {"name": "a", "namespace": "b", "port": 1}}"#.to_owned(), "not known"),
            (format!(r#"{{{service}, "messageTimeout": "0s"}}"#), "messageTimeout"),
            (format!(r#"{{{service}, "failureMode": "open"}}"#), "failureMode is none of Closed, Open"),
            (format!(r#"{{{service}, "maxBufferedBytes": "9Mi"}}"#), "maxBufferedBytes"),
            (format!(r#"{{{service}, "attributes": ["request.headers"]}}"#), "attributes"),
            (format!(r#"{{{service}, "mutationRules": {{"denied": ["a b"]}}}}"#), "no name of a header"),
            (
                format!(
                    r#"{{{service}, "processingMode": {{"request": {{"body": "FullDuplexStreamed"}}}}}}"#
                ),
                "processingMode.request.trailers",
            ),
        ] {
            let found = read(&value).err().unwrap_or_default();
            assert!(found.contains(problem), "{value}: {found}");
        }
    }
}
