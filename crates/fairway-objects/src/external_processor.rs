//! Services that speak `ext_proc`: an entry of an ExtensionPolicy, or the value of the annotation `fairway.dev/extension`, as an
//! [`Extension`] of the model. Finds no backend: whoever reads knows where the Service is.

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

/// How long the answer to a message may take where nothing is said, as in Envoy.
pub const DEFAULT_MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);
/// The longest such time.
pub const MAX_MESSAGE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How much of a body is held where nothing is said, in bytes.
pub const DEFAULT_BUFFERED_BYTES: u32 = 1 << 20;
/// The most of a body that may be held, in bytes.
const MAX_BUFFERED_BYTES: u64 = 8 << 20;
/// How many headers `mutationRules.denied` may name.
const MAX_DENIED_HEADERS: usize = 64;
/// How many namespaces `metadata` may have.
const MAX_METADATA_NAMESPACES: usize = 8;
/// How long the metadata of a namespace may be as JSON, in bytes.
const MAX_METADATA_BYTES: usize = 4096;

/// A field that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// The field, as in `processingMode.request.body`.
    pub field: String,
    /// What it has, where saying so helps. Not for messages that others than the owner of the object read.
    pub value: Option<String>,
    /// What is wrong with it: `is none of Open, Closed`.
    pub problem: String,
}

impl InvalidField {
    fn new(field: impl Into<String>, value: &str, problem: impl Into<String>) -> Self {
        Self { field: field.into(), value: Some(value.to_owned()), problem: problem.into() }
    }

    fn too_many(field: &str, limit: usize, what: &str) -> Self {
        Self { field: field.to_owned(), value: None, problem: format!("has more than {limit} {what}") }
    }
}

/// Reads a service. `name` is what the extension is called, and `namespace` that of the object, which the Service is in unless it says
/// another one. Its backend has no name yet.
///
/// # Errors
/// The first field that cannot be used.
pub fn read(of: &ExternalProcessor, name: Arc<str>, namespace: &str) -> Result<Extension, InvalidField> {
    let message_timeout = message_timeout(of.message_timeout.as_deref())?;
    let mode = of.processing_mode.as_ref();
    let usual = Timeouts::default();
    Ok(Extension {
        name,
        service: GrpcService {
            backend: BackendKey("".into()),
            authority: authority(of.host.as_deref(), &of.backend_ref, namespace)?,
            // A stream lives as long as its exchange: only the answer to a message has a time.
            timeouts: Timeouts { connect: usual.connect.min(message_timeout), ..usual },
        },
        message_timeout,
        failure_mode_allow: fails_open(of)?,
        request: phases("request", mode.and_then(|mode| mode.request.as_ref()))?,
        response: phases("response", mode.and_then(|mode| mode.response.as_ref()))?,
        allow_mode_override: of.allow_mode_override.unwrap_or_default(),
        mutation_rules: of.mutation_rules.as_ref().map(mutation_rules).transpose()?.unwrap_or_default(),
        max_buffered_body: buffered_bytes(of.max_buffered_bytes.as_ref())?,
        attributes: attributes(&of.attributes)?,
        metadata: metadata(&of.metadata)?,
        picks_endpoint: false,
    })
}

/// Whether requests go on while the service cannot be used.
///
/// # Errors
/// When `failureMode` is neither `Closed` nor `Open`.
pub fn fails_open(of: &ExternalProcessor) -> Result<bool, InvalidField> {
    let known = [("Closed", false), ("Open", true)];
    Ok(word("failureMode", of.failure_mode.as_deref(), &known)?.unwrap_or_default())
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
        // It may be a URL with a password in it.
        false => {
            Err(InvalidField { field: "host".to_owned(), value: None, problem: "is no host".to_owned() })
        }
    }
}

/// The word of an enumeration; `None` where nothing is said.
fn word<T: Copy>(field: &str, value: Option<&str>, known: &[(&str, T)]) -> Result<Option<T>, InvalidField> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, meant)| *meant);
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(Some).ok_or_else(|| InvalidField::new(field, value, format!("is none of {}", names())))
}

fn phases(message: &str, mode: Option<&MessageProcessing>) -> Result<ProcessingPhases, InvalidField> {
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
    let headers = word(&field("headers"), headers, &sent)?.unwrap_or(true);
    let body = word(&field("body"), body, &bodies)?.unwrap_or_default();
    let trailers = word(&field("trailers"), trailers, &sent)?.unwrap_or(false);
    if body == BodyMode::FullDuplexStreamed && !trailers {
        let problem = "is Skip, and a body that is FullDuplexStreamed needs Send".to_owned();
        return Err(InvalidField { field: field("trailers"), value: None, problem });
    }
    Ok(ProcessingPhases { headers, body, trailers })
}

fn mutation_rules(of: &HeaderMutationRules) -> Result<MutationRules, InvalidField> {
    let field = "mutationRules.denied";
    if of.denied.len() > MAX_DENIED_HEADERS {
        return Err(InvalidField::too_many(field, MAX_DENIED_HEADERS, "names"));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = |name: &String| match !name.is_empty() && name.bytes().all(is_token) {
        true => Ok(name.to_ascii_lowercase().into()),
        false => Err(InvalidField::new(field, name, "is no name of a header")),
    };
    Ok(MutationRules {
        allow_path_and_method: of.allow_path_and_method.unwrap_or_default(),
        allow_forwarded: of.allow_forwarded.unwrap_or_default(),
        denied: of.denied.iter().map(name).collect::<Result<_, _>>()?,
        error_on_denied: of.error_on_denied.unwrap_or_default(),
    })
}

fn buffered_bytes(size: Option<&Size>) -> Result<u32, InvalidField> {
    let Some(size) = size else { return Ok(DEFAULT_BUFFERED_BYTES) };
    let bytes = size.bytes().filter(|bytes| (1..=MAX_BUFFERED_BYTES).contains(bytes));
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| InvalidField::new("maxBufferedBytes", &size.0, "is no size from 1 to 8Mi"))
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

fn attributes(names: &[String]) -> Result<Vec<(Arc<str>, Template)>, InvalidField> {
    let mut found: Vec<(Arc<str>, Template)> = Vec::with_capacity(names.len());
    for name in names {
        let known = "is no attribute that services may get: request.path, url_path, query, host, scheme, method, protocol, id, \
                     referer and useragent, and source.address";
        let part = attribute(name).ok_or_else(|| InvalidField::new("attributes", name, known))?;
        if !found.iter().any(|(known, _)| **known == **name) {
            found.push((name.as_str().into(), Template(vec![part])));
        }
    }
    Ok(found)
}

/// Namespaces and their objects as JSON.
type Metadata = Vec<(Arc<str>, Arc<str>)>;

fn metadata(of: &BTreeMap<String, Map<String, Value>>) -> Result<Metadata, InvalidField> {
    if of.len() > MAX_METADATA_NAMESPACES {
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
    of.iter().map(written).collect()
}
