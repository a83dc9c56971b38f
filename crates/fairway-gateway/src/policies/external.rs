//! Reads external authorization. The caller resolves the backend, because it knows which references are permitted.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::variables::{self, parse_template};
use fairway_model::{
    AuthCookies, AuthService, BackendKey, ExternalAuth, GrpcAuth, GrpcService, Guard, Template, Timeouts,
    redact_url,
};
use fairway_objects::annotations::is_hop_header;
use fairway_objects::{policies as types, sign_in};

use crate::policies::reading::PolicyError;
use crate::policies::value::{bounded_bytes, enum_value, positive_time};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// The sign-in page's parameter for the original URL.
const SIGN_IN_PARAMETER: &str = "rd";

/// Timeout of a gRPC check, as in Envoy Gateway.
pub(crate) const GRPC_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum request body included in a gRPC check, in bytes.
pub(crate) const MAX_GRPC_BODY: u64 = 1 << 20;
/// Maximum number of `contextExtensions`.
const MAX_CONTEXT: usize = 32;
/// Maximum length of a name or value of `contextExtensions`, in bytes.
const MAX_CONTEXT_TEXT: usize = 1024;

/// A call to an external authorization service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AuthCall {
    Http(Box<ExternalAuth>),
    Grpc(Box<GrpcAuth>),
}

impl AuthCall {
    /// The guard for this backend.
    pub(crate) fn guard(mut self, backend: Option<BackendKey>) -> Guard {
        let service = match &mut self {
            Self::Http(auth) => match &mut auth.service {
                AuthService::Backend { backend, .. } => Some(backend),
                AuthService::OwnHost { .. } => None,
            },
            Self::Grpc(auth) => Some(&mut auth.service.backend),
        };
        if let (Some(asked), Some(backend)) = (service, backend) {
            *asked = backend;
        }
        match self {
            Self::Http(auth) => Guard::ExternalAuth(auth),
            Self::Grpc(auth) => Guard::GrpcAuth(auth),
        }
    }
}

/// Reads the call of a policy in `namespace`; its backend key is still empty.
pub(crate) fn read(spec: &types::ExternalAuth, namespace: &str) -> Result<AuthCall, PolicyError> {
    let host = host("spec.externalAuth.host", spec.host.as_deref(), &spec.backend_ref, namespace)?;
    match &spec.grpc {
        Some(grpc) => Ok(AuthCall::Grpc(Box::new(grpc_auth(spec, grpc, host)?))),
        None => Ok(AuthCall::Http(Box::new(http_auth(spec, host)?))),
    }
}

fn http_auth(spec: &types::ExternalAuth, host: Arc<str>) -> Result<ExternalAuth, PolicyError> {
    let method = spec.method.as_deref().unwrap_or("GET");
    if !METHODS.contains(&method) {
        let problem = format!("\"{method}\" is none of {}", METHODS.join(", "));
        return Err(PolicyError::new("spec.externalAuth.method", problem));
    }
    let sign_in = spec.sign_in_url.as_deref().filter(|url| !url.is_empty());
    let sign_in = sign_in.map(|url| sign_in::page(url, SIGN_IN_PARAMETER)).transpose();
    Ok(ExternalAuth {
        service: AuthService::Backend { backend: BackendKey("".into()), host },
        method: Some(method.into()),
        target: target(spec.path.as_deref().unwrap_or("/"))?,
        copied: spec.response_headers.iter().map(|name| header(name)).collect::<Result<_, _>>()?,
        fields: Vec::new(),
        redirect: None,
        sign_in: sign_in.map_err(|problem| PolicyError::new("spec.externalAuth.signInUrl", problem))?,
        cookies: AuthCookies::OfSuccess,
        timeouts: timeouts(positive_time("spec.externalAuth.timeout", spec.timeout.as_deref())?),
        kept: None,
        filter: None,
    })
}

fn grpc_auth(
    spec: &types::ExternalAuth,
    grpc: &types::GrpcAuth,
    host: Arc<str>,
) -> Result<GrpcAuth, PolicyError> {
    let of_http = [
        ("path", spec.path.is_some()),
        ("method", spec.method.is_some()),
        ("responseHeaders", !spec.response_headers.is_empty()),
        ("signInUrl", spec.sign_in_url.is_some()),
    ];
    if let Some((field, _)) = of_http.iter().find(|(_, is_there)| *is_there) {
        let problem =
            "it is for services that are asked over HTTP, and spec.externalAuth.grpc asks over gRPC";
        return Err(PolicyError::new(format!("spec.externalAuth.{field}"), problem));
    }
    let field = "spec.externalAuth.grpc.contextExtensions";
    if grpc.context_extensions.len() > MAX_CONTEXT {
        return Err(PolicyError::new(field, format!("it has more than {MAX_CONTEXT} entries")));
    }
    let too_long = |(name, value): &(&String, &String)| name.len().max(value.len()) > MAX_CONTEXT_TEXT;
    if grpc.context_extensions.iter().any(|entry| too_long(&entry)) {
        let problem = format!("a name or value is longer than {MAX_CONTEXT_TEXT} bytes");
        return Err(PolicyError::new(field, problem));
    }
    let time = positive_time("spec.externalAuth.timeout", spec.timeout.as_deref())?.unwrap_or(GRPC_TIMEOUT);
    let context = grpc.context_extensions.iter();
    Ok(GrpcAuth {
        service: GrpcService {
            backend: BackendKey("".into()),
            authority: host,
            timeouts: Timeouts { request: Some(time), ..timeouts(Some(time)) },
        },
        max_body: bounded_bytes(
            "spec.externalAuth.grpc.maxRequestBytes",
            grpc.max_request_bytes.as_ref(),
            0,
            0..=MAX_GRPC_BODY,
        )?,
        allow_partial_body: grpc.allow_partial_body.unwrap_or_default(),
        failure_mode_allow: fails_open("spec.externalAuth.grpc.failureMode", grpc.failure_mode.as_deref())?,
        context: context.map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
        sent: Vec::new(),
    })
}

/// Whether requests pass if the service is unavailable.
fn fails_open(field: &str, mode: Option<&str>) -> Result<bool, PolicyError> {
    Ok(enum_value(field, mode, &[("Closed", false), ("Open", true)])?.unwrap_or_default())
}

/// The host of the call: as written, else the name of the Service.
fn host(
    field: &str,
    written: Option<&str>,
    service: &types::ServiceReference,
    namespace: &str,
) -> Result<Arc<str>, PolicyError> {
    match written {
        Some(host) if !is_host(host) => {
            Err(PolicyError::new(field, format!("\"{}\" is no host", redact_url(host))))
        }
        Some(host) => Ok(host.into()),
        None => {
            let namespace = service.namespace.as_deref().unwrap_or(namespace);
            Ok(format!("{}.{namespace}.svc", service.name).into())
        }
    }
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b))
}

fn target(path: &str) -> Result<Template, PolicyError> {
    let field = "spec.externalAuth.path";
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.contains('#') {
        return Err(PolicyError::new(field, format!("\"{}\" is no path", redact_url(path))));
    }
    parse_template(path).map_err(|variable| PolicyError::new(field, variables::url_problem(path, &variable)))
}

fn header(name: &str) -> Result<Arc<str>, PolicyError> {
    let field = "spec.externalAuth.responseHeaders";
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(good) {
        return Err(PolicyError::new(field, format!("\"{name}\" is no name of a header")));
    }
    if is_hop_header(name) || name.eq_ignore_ascii_case("expect") {
        return Err(PolicyError::new(field, format!("{name} belongs to the connection")));
    }
    Ok(name.into())
}

fn timeouts(step: Option<Duration>) -> Timeouts {
    let base = Timeouts::default();
    match step {
        None => base,
        Some(step) => Timeouts { connect: base.connect.min(step), send: step, read: step, ..base },
    }
}
