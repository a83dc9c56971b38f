//! Parses `ext_proc` services: an entry of an ExtensionPolicy or the annotation `fairway.dev/extension`, to an [`Extension`] of
//! the model. Resolves no backend: the caller knows where the Service is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    BackendKey, BodyMode, Extension, GrpcService, MutationRules, ProcessingPhases, Template, TemplatePart,
    Timeouts,
};
use serde_json::{Map, Value};

use crate::duration;
use crate::policies::{ExternalProcessor, HeaderMutationRules, MessageProcessing, ServiceReference, Size};

/// The default timeout of a response to a message, as in Envoy.
pub const DEFAULT_MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);
/// The maximum of this timeout.
pub const MAX_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The default limit of a buffered body, in bytes.
pub const DEFAULT_BUFFERED_BYTES: u32 = 1 << 20;
/// The maximum of this limit, in bytes.
const MAX_BUFFERED_BYTES: u64 = 8 << 20;
/// The maximum number of headers in `mutationRules.denied`.
const MAX_DENIED_HEADERS: usize = 64;
/// The maximum number of namespaces in `metadata`.
const MAX_METADATA_NAMESPACES: usize = 8;
/// The maximum size of a namespace's metadata as JSON, in bytes.
const MAX_METADATA_BYTES: usize = 4096;

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// The field, as in `processingMode.request.body`.
    pub field: String,
    /// Its value, if that is helpful. Only for messages to the owner of the object.
    pub value: Option<String>,
    /// What is wrong with it: `is none of Open, Closed`.
    pub problem: String,
}

impl InvalidField {
    fn new(field: impl Into<String>, value: &str, problem: impl Into<String>) -> Self {
        Self { field: field.into(), value: Some(value.to_owned()), problem: problem.into() }
    }

    fn too_many(field: &str, limit: usize, items: &str) -> Self {
        Self { field: field.to_owned(), value: None, problem: format!("has more than {limit} {items}") }
    }
}

/// Parses a service. `name` is the name of the extension; `namespace` is that of the object and the default for the Service. Its
/// backend is not set yet.
///
/// # Errors
/// The first invalid field.
pub fn read(
    processor: &ExternalProcessor,
    name: Arc<str>,
    namespace: &str,
) -> Result<Extension, InvalidField> {
    let message_timeout = message_timeout(processor.message_timeout.as_deref())?;
    let mode = processor.processing_mode.as_ref();
    let usual = Timeouts::default();
    Ok(Extension {
        name,
        service: GrpcService {
            backend: BackendKey("".into()),
            authority: authority(processor.host.as_deref(), &processor.backend_ref, namespace)?,
            // A stream lives as long as its exchange: only the response to a message has a timeout.
            timeouts: Timeouts { connect: usual.connect.min(message_timeout), ..usual },
        },
        message_timeout,
        failure_mode_allow: fails_open(processor)?,
        request: read_phases("request", mode.and_then(|mode| mode.request.as_ref()))?,
        response: read_phases("response", mode.and_then(|mode| mode.response.as_ref()))?,
        allow_mode_override: processor.allow_mode_override.unwrap_or_default(),
        mutation_rules: processor
            .mutation_rules
            .as_ref()
            .map(mutation_rules)
            .transpose()?
            .unwrap_or_default(),
        max_buffered_body: buffered_bytes(processor.max_buffered_bytes.as_ref())?,
        attributes: attributes(&processor.attributes)?,
        metadata: metadata(&processor.metadata)?,
        picks_endpoint: false,
    })
}

/// Whether requests continue while the service is unavailable.
///
/// # Errors
/// `failureMode` is neither `Closed` nor `Open`.
pub fn fails_open(processor: &ExternalProcessor) -> Result<bool, InvalidField> {
    let known = [("Closed", false), ("Open", true)];
    Ok(parse_enum("failureMode", processor.failure_mode.as_deref(), &known)?.unwrap_or_default())
}

fn message_timeout(text: Option<&str>) -> Result<Duration, InvalidField> {
    let Some(text) = text else { return Ok(DEFAULT_MESSAGE_TIMEOUT) };
    let within = Duration::from_millis(1)..=MAX_MESSAGE_TIMEOUT;
    let time = duration::read(text).filter(|time| within.contains(time));
    time.ok_or_else(|| {
        InvalidField::new("messageTimeout", text, "is no duration from 1ms to 1h, such as 500ms")
    })
}

fn authority(
    host: Option<&str>,
    service: &ServiceReference,
    namespace: &str,
) -> Result<Arc<str>, InvalidField> {
    let Some(host) = host else {
        let namespace = service.namespace.as_deref().unwrap_or(namespace);
        return Ok(format!("{}.{namespace}.svc", service.name).into());
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    match !host.is_empty() && host.bytes().all(is_host) {
        true => Ok(host.into()),
        // It may be a URL that contains a password.
        false => {
            Err(InvalidField { field: "host".to_owned(), value: None, problem: "is no host".to_owned() })
        }
    }
}

/// Parses an enumeration value; `None` if it is absent.
fn parse_enum<T: Copy>(
    field: &str,
    value: Option<&str>,
    known: &[(&str, T)],
) -> Result<Option<T>, InvalidField> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, meant)| *meant);
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(Some).ok_or_else(|| InvalidField::new(field, value, format!("is none of {}", names())))
}

fn read_phases(message: &str, mode: Option<&MessageProcessing>) -> Result<ProcessingPhases, InvalidField> {
    let field = |name: &str| format!("processingMode.{message}.{name}");
    let sent = [("Send", true), ("Skip", false)];
    let bodies = [
        ("None", BodyMode::None),
        ("Streamed", BodyMode::Streamed),
        ("Buffered", BodyMode::Buffered),
        ("BufferedPartial", BodyMode::BufferedPartial),
        ("FullDuplexStreamed", BodyMode::FullDuplexStreamed),
    ];
    let (headers, body, trailers) = mode
        .map(|mode| (mode.headers.as_deref(), mode.body.as_deref(), mode.trailers.as_deref()))
        .unwrap_or_default();
    let headers = parse_enum(&field("headers"), headers, &sent)?.unwrap_or(true);
    let body = parse_enum(&field("body"), body, &bodies)?.unwrap_or_default();
    let trailers = parse_enum(&field("trailers"), trailers, &sent)?.unwrap_or(false);
    if body == BodyMode::FullDuplexStreamed && !trailers {
        let problem = "is Skip, and a body that is FullDuplexStreamed needs Send".to_owned();
        return Err(InvalidField { field: field("trailers"), value: None, problem });
    }
    Ok(ProcessingPhases { headers, body, trailers })
}

fn mutation_rules(rules: &HeaderMutationRules) -> Result<MutationRules, InvalidField> {
    let field = "mutationRules.denied";
    if rules.denied.len() > MAX_DENIED_HEADERS {
        return Err(InvalidField::too_many(field, MAX_DENIED_HEADERS, "names"));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = |name: &String| match !name.is_empty() && name.bytes().all(is_token) {
        true => Ok(name.to_ascii_lowercase().into()),
        false => Err(InvalidField::new(field, name, "is no name of a header")),
    };
    Ok(MutationRules {
        allow_path_and_method: rules.allow_path_and_method.unwrap_or_default(),
        allow_forwarded: rules.allow_forwarded.unwrap_or_default(),
        denied: rules.denied.iter().map(name).collect::<Result<_, _>>()?,
        error_on_denied: rules.error_on_denied.unwrap_or_default(),
    })
}

fn buffered_bytes(size: Option<&Size>) -> Result<u32, InvalidField> {
    let Some(size) = size else { return Ok(DEFAULT_BUFFERED_BYTES) };
    let bytes = size.bytes().filter(|bytes| (1..=MAX_BUFFERED_BYTES).contains(bytes));
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| InvalidField::new("maxBufferedBytes", &size.0, "is no size from 1 to 8Mi"))
}

/// The attributes that a service may get, from those of Envoy (Envoy "Attributes").
fn attribute_part(name: &str) -> Option<TemplatePart> {
    Some(match name {
        "request.path" => TemplatePart::RequestUri,
        "request.url_path" => TemplatePart::Path,
        "request.query" => TemplatePart::Query,
        "request.host" => TemplatePart::HttpHost,
        "request.scheme" => TemplatePart::Scheme,
        "request.method" => TemplatePart::Method,
        "request.protocol" => TemplatePart::Protocol,
        "request.id" => TemplatePart::RequestId,
        "request.referer" => TemplatePart::Header("referer".into()),
        "request.useragent" => TemplatePart::Header("user_agent".into()),
        "source.address" => TemplatePart::Address,
        _ => return None,
    })
}

fn attributes(names: &[String]) -> Result<Vec<(Arc<str>, Template)>, InvalidField> {
    let mut found: Vec<(Arc<str>, Template)> = Vec::with_capacity(names.len());
    for name in names {
        let known = "is no attribute that services may get: request.path, url_path, query, host, scheme, method, protocol, id, \
                     referer and useragent, and source.address";
        let part = attribute_part(name).ok_or_else(|| InvalidField::new("attributes", name, known))?;
        if !found.iter().any(|(known, _)| **known == **name) {
            found.push((name.as_str().into(), Template(vec![part])));
        }
    }
    Ok(found)
}

/// Namespaces and their objects as JSON.
type Metadata = Vec<(Arc<str>, Arc<str>)>;

fn metadata(spec: &BTreeMap<String, Map<String, Value>>) -> Result<Metadata, InvalidField> {
    if spec.len() > MAX_METADATA_NAMESPACES {
        return Err(InvalidField::too_many("metadata", MAX_METADATA_NAMESPACES, "namespaces"));
    }
    let written = |(namespace, object): (&String, &Map<String, Value>)| {
        let json = Value::Object(object.clone()).to_string();
        let problem = || format!("is longer than {MAX_METADATA_BYTES} bytes as JSON");
        match json.len() {
            0..=MAX_METADATA_BYTES => Ok((namespace.as_str().into(), json.into())),
            _ => Err(InvalidField::new("metadata", namespace, problem())),
        }
    };
    spec.iter().map(written).collect()
}
