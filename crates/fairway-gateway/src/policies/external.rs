//! The question to another service. Its backend is looked for by whoever knows which references may be followed.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::variables::{self, template};
use fairway_model::{
    AuthCookies, AuthService, BackendKey, ExternalAuth, GrpcAuth, GrpcService, Guard, Template, Timeouts,
    shown_url,
};
use fairway_objects::annotations::is_of_the_hop;
use fairway_objects::{policies as types, sign_in};

use crate::policies::reading::Wrong;
use crate::policies::value::{bounded, some_time, word};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// The parameter of the page where clients sign in that has the URL they wanted.
const PARAMETER: &str = "rd";

/// How long a question over gRPC may take, as in Envoy Gateway.
pub(crate) const GRPC_TIMEOUT: Duration = Duration::from_secs(10);
/// The most of a body that a question over gRPC has, in bytes.
pub(crate) const MAX_BODY: u64 = 1 << 20;
/// How many `contextExtensions` there may be.
const MAX_CONTEXT: usize = 32;
/// How long the name or the value of one may be, in bytes.
const MAX_CONTEXT_TEXT: usize = 1024;

/// What another service is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    Http(Box<ExternalAuth>),
    Grpc(Box<GrpcAuth>),
}

impl Question {
    /// The guard that asks this backend.
    pub(crate) fn guard(mut self, backend: Option<BackendKey>) -> Guard {
        let asked = match &mut self {
            Self::Http(auth) => match &mut auth.service {
                AuthService::Backend { backend, .. } => Some(backend),
                AuthService::OwnHost { .. } => None,
            },
            Self::Grpc(auth) => Some(&mut auth.service.backend),
        };
        if let (Some(asked), Some(backend)) = (asked, backend) {
            *asked = backend;
        }
        match self {
            Self::Http(auth) => Guard::ExternalAuth(auth),
            Self::Grpc(auth) => Guard::GrpcAuth(auth),
        }
    }
}

/// Reads a question of a policy in `namespace`; its backend has no name yet.
pub(crate) fn read(of: &types::ExternalAuth, namespace: &str) -> Result<Question, Wrong> {
    let host = host("spec.externalAuth.host", of.host.as_deref(), &of.backend_ref, namespace)?;
    match &of.grpc {
        Some(grpc) => Ok(Question::Grpc(Box::new(over_grpc(of, grpc, host)?))),
        None => Ok(Question::Http(Box::new(over_http(of, host)?))),
    }
}

fn over_http(of: &types::ExternalAuth, host: Arc<str>) -> Result<ExternalAuth, Wrong> {
    let method = of.method.as_deref().unwrap_or("GET");
    if !METHODS.contains(&method) {
        let problem = format!("\"{method}\" is none of {}", METHODS.join(", "));
        return Err(Wrong::new("spec.externalAuth.method", problem));
    }
    let sign_in = of.sign_in_url.as_deref().filter(|url| !url.is_empty());
    let sign_in = sign_in.map(|url| sign_in::page(url, PARAMETER)).transpose();
    Ok(ExternalAuth {
        service: AuthService::Backend { backend: BackendKey("".into()), host },
        method: Some(method.into()),
        target: target(of.path.as_deref().unwrap_or("/"))?,
        copied: of.response_headers.iter().map(|name| header(name)).collect::<Result<_, _>>()?,
        fields: Vec::new(),
        redirect: None,
        sign_in: sign_in.map_err(|problem| Wrong::new("spec.externalAuth.signInUrl", problem))?,
        cookies: AuthCookies::OfSuccess,
        timeouts: timeouts(some_time("spec.externalAuth.timeout", of.timeout.as_deref())?),
        kept: None,
        filter: None,
    })
}

fn over_grpc(of: &types::ExternalAuth, grpc: &types::GrpcAuth, host: Arc<str>) -> Result<GrpcAuth, Wrong> {
    let of_http = [
        ("path", of.path.is_some()),
        ("method", of.method.is_some()),
        ("responseHeaders", !of.response_headers.is_empty()),
        ("signInUrl", of.sign_in_url.is_some()),
    ];
    if let Some((field, _)) = of_http.iter().find(|(_, is_there)| *is_there) {
        let problem =
            "it is for services that are asked over HTTP, and spec.externalAuth.grpc asks over gRPC";
        return Err(Wrong::new(format!("spec.externalAuth.{field}"), problem));
    }
    let field = "spec.externalAuth.grpc.contextExtensions";
    if grpc.context_extensions.len() > MAX_CONTEXT {
        return Err(Wrong::new(field, format!("it has more than {MAX_CONTEXT} entries")));
    }
    let too_long = |(name, value): &(&String, &String)| name.len().max(value.len()) > MAX_CONTEXT_TEXT;
    if grpc.context_extensions.iter().any(|entry| too_long(&entry)) {
        let problem = format!("a name or value is longer than {MAX_CONTEXT_TEXT} bytes");
        return Err(Wrong::new(field, problem));
    }
    let time = some_time("spec.externalAuth.timeout", of.timeout.as_deref())?.unwrap_or(GRPC_TIMEOUT);
    let context = grpc.context_extensions.iter();
    Ok(GrpcAuth {
        service: GrpcService {
            backend: BackendKey("".into()),
            authority: host,
            timeouts: Timeouts { request: Some(time), ..timeouts(Some(time)) },
        },
        max_body: bounded(
            "spec.externalAuth.grpc.maxRequestBytes",
            grpc.max_request_bytes.as_ref(),
            0,
            0..=MAX_BODY,
        )?,
        allow_partial_body: grpc.allow_partial_body.unwrap_or_default(),
        failure_mode_allow: is_open("spec.externalAuth.grpc.failureMode", grpc.failure_mode.as_deref())?,
        context: context.map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
        sent: Vec::new(),
    })
}

/// Whether requests pass while a service cannot be used.
fn is_open(field: &str, mode: Option<&str>) -> Result<bool, Wrong> {
    Ok(word(field, mode, &[("Closed", false), ("Open", true)])?.unwrap_or_default())
}

/// The host that a service is asked for: what is written, else the name of the Service.
fn host(
    field: &str,
    written: Option<&str>,
    service: &types::ServiceReference,
    namespace: &str,
) -> Result<Arc<str>, Wrong> {
    match written {
        Some(host) if !is_host(host) => Err(Wrong::new(field, format!("\"{}\" is no host", shown_url(host)))),
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

fn target(path: &str) -> Result<Template, Wrong> {
    let field = "spec.externalAuth.path";
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.contains('#') {
        return Err(Wrong::new(field, format!("\"{}\" is no path", shown_url(path))));
    }
    template(path).map_err(|variable| Wrong::new(field, variables::problem_of_url(path, &variable)))
}

fn header(name: &str) -> Result<Arc<str>, Wrong> {
    let field = "spec.externalAuth.responseHeaders";
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(good) {
        return Err(Wrong::new(field, format!("\"{name}\" is no name of a header")));
    }
    if is_of_the_hop(name) || name.eq_ignore_ascii_case("expect") {
        return Err(Wrong::new(field, format!("{name} belongs to the connection")));
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
