//! The `ExternalAuth` filter of HTTPRoutes (GEP-1494): an external service is asked over HTTP or gRPC. A rule whose
//! filter cannot be applied returns 500, whatever else its route contains.

use std::sync::Arc;

use fairway_model::{
    AuthCookies, AuthFilter, AuthService, BackendKey, ExternalAuth, GrpcAuth, GrpcService, Guard, Template,
    TemplatePart, Timeouts, redact_url,
};
use fairway_objects::annotations::is_hop_header;
use fairway_objects::gateway_api::{
    BackendObjectReference, ForwardBodyConfig, HttpAuthConfig, HttpExternalAuthFilter, HttpRouteFilter,
    HttpRouteRule,
};

use crate::backend::RouteProtocol;
use crate::condition::Fault;
use crate::filter::EXTERNAL_AUTH;
use crate::policies::backends::is_token;
use crate::policies::external::{GRPC_TIMEOUT, MAX_GRPC_BODY};
use crate::rules::RuleBuilder;

/// The guards of rule `index`; `None` if one is unusable and the rule must stay closed.
pub(super) fn read(index: usize, rule: &HttpRouteRule, builder: &mut RuleBuilder<'_>) -> Option<Vec<Guard>> {
    let mut guards = Some(Vec::new());
    for (number, filter) in rule.filters.iter().enumerate().filter(|(_, of)| of.type_ == EXTERNAL_AUTH) {
        let at = format!("spec.rules[{index}].filters[{number}].externalAuth");
        guards = match (guards, guard(index, &at, filter, builder)) {
            (Some(mut guards), Some(guard)) => {
                guards.push(guard);
                Some(guards)
            }
            _ => None,
        };
    }
    for (number, backend) in rule.backend_refs.iter().enumerate() {
        if backend.filters.iter().any(|filter| filter.type_ == EXTERNAL_AUTH) {
            let at = format!("spec.rules[{index}].backendRefs[{number}].filters");
            let problem = "ExternalAuth of one backend is not supported, only that of a whole rule";
            builder.close(index, &at, unsupported(problem.to_owned()));
            guards = None;
        }
    }
    guards
}

fn guard(index: usize, at: &str, filter: &HttpRouteFilter, builder: &mut RuleBuilder<'_>) -> Option<Guard> {
    let question = filter.external_auth.as_ref().ok_or_else(|| unsupported("it has no value".to_owned()));
    let (auth_filter, speaks) = match question.and_then(|filter| Ok((filter, protocol(filter)?))) {
        Ok(asked) => asked,
        Err(fault) => {
            builder.close(index, at, fault);
            return None;
        }
    };
    let backend =
        builder.auth_backend(&format!("{at}.backendRef"), (&auth_filter.backend_ref).into(), speaks)?;
    let auth = match speaks {
        RouteProtocol::Grpc => {
            grpc_auth(auth_filter, backend, host(&auth_filter.backend_ref, builder)).map(Guard::GrpcAuth)
        }
        _ => http_auth(auth_filter, backend).map(Guard::ExternalAuth),
    };
    auth.map_err(|fault| builder.close(index, at, fault)).ok()
}

fn protocol(filter: &HttpExternalAuthFilter) -> Result<RouteProtocol, Fault> {
    match (&*filter.protocol, &filter.http, &filter.grpc) {
        ("HTTP", _, None) => Ok(RouteProtocol::Http),
        ("GRPC", None, _) => Ok(RouteProtocol::Grpc),
        ("HTTP", ..) => Err(unsupported("grpc is for the protocol GRPC, and protocol is HTTP".to_owned())),
        ("GRPC", ..) => Err(unsupported("http is for the protocol HTTP, and protocol is GRPC".to_owned())),
        (other, ..) => Err(unsupported(format!("protocol \"{other}\" is neither HTTP nor GRPC"))),
    }
}

/// The host name of a gRPC call.
fn host(reference: &BackendObjectReference, builder: &RuleBuilder<'_>) -> Arc<str> {
    let namespace = reference.namespace.as_deref().unwrap_or(&builder.resolver.route.key.namespace);
    format!("{}.{namespace}.svc", reference.name).into()
}

fn http_auth(spec: &HttpExternalAuthFilter, backend: BackendKey) -> Result<Box<ExternalAuth>, Fault> {
    if spec.forward_body.as_ref().is_some_and(|body| body.max_size.unwrap_or_default() != 0) {
        let problem = "forwardBody is supported for the protocol GRPC only";
        return Err(unsupported(problem.to_owned()));
    }
    let none = HttpAuthConfig::default();
    let http = spec.http.as_ref().unwrap_or(&none);
    let mut sent = header_names("http.allowedHeaders", &http.allowed_headers)?;
    sent.push("authorization".into());
    let copied = header_names("http.allowedResponseHeaders", &http.allowed_response_headers)?;
    if let Some(name) = copied.iter().find(|name| is_fixed_header(name)) {
        return Err(unsupported(format!("http.allowedResponseHeaders: {name} belongs to the connection")));
    }
    Ok(Box::new(ExternalAuth {
        // The call has the host of the request.
        service: AuthService::Backend { backend, host: "".into() },
        method: None,
        target: target(http.path.as_deref().unwrap_or_default())?,
        fields: Vec::new(),
        redirect: None,
        sign_in: None,
        cookies: AuthCookies::OfSuccess,
        timeouts: Timeouts::default(),
        kept: None,
        filter: Some(AuthFilter { sent, copies_all: copied.is_empty() }),
        copied,
    }))
}

fn grpc_auth(
    filter: &HttpExternalAuthFilter,
    backend: BackendKey,
    authority: Arc<str>,
) -> Result<Box<GrpcAuth>, Fault> {
    let headers = filter.grpc.as_ref().map_or(&[][..], |grpc| grpc.allowed_headers.as_slice());
    let base = Timeouts::default();
    let (send, read) = (GRPC_TIMEOUT, GRPC_TIMEOUT);
    let timeouts = Timeouts { connect: base.connect.min(GRPC_TIMEOUT), send, read, ..base };
    let timeouts = Timeouts { request: Some(GRPC_TIMEOUT), ..timeouts };
    Ok(Box::new(GrpcAuth {
        service: GrpcService { backend, authority, timeouts },
        max_body: filter.forward_body.as_ref().map(max_body).transpose()?.unwrap_or_default(),
        // "Bodies over that size must be rejected."
        allow_partial_body: false,
        failure_mode_allow: false,
        context: Vec::new(),
        sent: header_names("grpc.allowedHeaders", headers)?,
    }))
}

fn max_body(config: &ForwardBodyConfig) -> Result<u32, Fault> {
    let size = config.max_size.unwrap_or_default();
    let fits = u32::try_from(size).ok().filter(|size| u64::from(*size) <= MAX_GRPC_BODY);
    fits.ok_or_else(|| {
        unsupported(format!("forwardBody.maxSize {size} is not supported; the most is {MAX_GRPC_BODY} bytes"))
    })
}

/// The prefix followed by the path and query of the request.
fn target(prefix: &str) -> Result<Template, Fault> {
    let good = |byte: u8| byte.is_ascii_graphic() && !b"?#\\".contains(&byte);
    let is_path = prefix.starts_with('/') && prefix.bytes().all(good);
    if !prefix.is_empty() && !is_path {
        return Err(unsupported(format!("http.path \"{}\" is no path", redact_url(prefix))));
    }
    let prefix = prefix.trim_end_matches('/');
    let text = (!prefix.is_empty()).then(|| TemplatePart::Text(prefix.into()));
    Ok(Template(text.into_iter().chain([TemplatePart::RequestUri]).collect()))
}

/// Header names in lower case.
fn header_names(field: &str, names: &[String]) -> Result<Vec<Arc<str>>, Fault> {
    let name = |name: &String| match is_token(name) {
        true => Ok(name.to_ascii_lowercase().into()),
        false => Err(unsupported(format!("{field}: \"{name}\" is no name of a header"))),
    };
    names.iter().map(name).collect()
}

/// Whether no service may set this request header.
fn is_fixed_header(name: &str) -> bool {
    is_hop_header(name) || name == "expect"
}

fn unsupported(problem: String) -> Fault {
    Fault::new("UnsupportedValue", problem)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn auth_filter(filter: Value) -> HttpExternalAuthFilter {
        serde_json::from_value(filter).expect("a filter")
    }

    fn http(filter: Value) -> Result<Box<ExternalAuth>, Fault> {
        http_auth(&auth_filter(filter), "auth".into())
    }

    fn grpc(filter: Value) -> Result<Box<GrpcAuth>, Fault> {
        grpc_auth(&auth_filter(filter), "auth".into(), "auth.shop.svc".into())
    }

    #[test]
    fn auth_requests_have_few_headers_and_responses_copy_all_by_default() {
        let plain = http(json!({})).unwrap();
        let filter = plain.filter.unwrap();
        assert_eq!((filter.sent, filter.copies_all), (vec!["authorization".into()], true));
        let named = json!({"http": {"path": "/check/", "allowedHeaders": ["Cookie"], "allowedResponseHeaders": ["X-User"]}});
        let named = http(named).unwrap();
        let filter = named.filter.unwrap();
        assert_eq!(filter.sent, ["cookie".into(), "authorization".into()]);
        assert_eq!((filter.copies_all, named.copied), (false, vec!["x-user".into()]));
        assert_eq!(
            named.target,
            Template(vec![TemplatePart::Text("/check".into()), TemplatePart::RequestUri])
        );
    }

    #[test]
    fn bodies_are_sent_only_over_grpc() {
        let size = |size: i64| json!({"forwardBody": {"maxSize": size}});
        assert!(http(size(0)).is_ok() && http(size(1)).is_err());
        assert!(http(json!({"forwardBody": {}})).is_ok());
        assert_eq!(grpc(size(1024)).unwrap().max_body, 1024);
        assert!(grpc(size(-1)).is_err() && grpc(size(1_048_577)).is_err());
        assert_eq!(grpc(json!({})).unwrap().service.timeouts.request, Some(GRPC_TIMEOUT));
    }

    #[test]
    fn rejects_unsupported_auth_filters() {
        for filter in [
            json!({"http": {"path": "check"}}),
            json!({"http": {"path": "/a?b"}}),
            json!({"http": {"path": "/a b"}}),
            json!({"http": {"allowedHeaders": ["a b"]}}),
            json!({"http": {"allowedResponseHeaders": ["Host"]}}),
            json!({"http": {"allowedResponseHeaders": ["Transfer-Encoding"]}}),
            json!({"http": {"allowedResponseHeaders": ["content-length"]}}),
        ] {
            assert!(http(filter.clone()).is_err(), "{filter}");
        }
        assert!(grpc(json!({"grpc": {"allowedHeaders": [""]}})).is_err());
        for filter in [
            json!({}),
            json!({"protocol": "http"}),
            json!({"protocol": "HTTP", "grpc": {}}),
            json!({"protocol": "GRPC", "http": {}}),
        ] {
            assert!(protocol(&auth_filter(filter.clone())).is_err(), "{filter}");
        }
    }
}
