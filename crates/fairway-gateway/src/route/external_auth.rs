//! The filter `ExternalAuth` of HTTPRoutes (GEP-1494): another service is asked about requests, over HTTP or gRPC. It protects, so a
//! rule whose filter cannot be applied answers 500, whatever else its route has.

use std::sync::Arc;

use fairway_model::{
    AuthCookies, AuthFilter, AuthService, BackendKey, ExternalAuth, GrpcAuth, GrpcService, Guard, Template,
    TemplatePart, Timeouts, shown_url,
};
use fairway_objects::annotations::is_of_the_hop;
use fairway_objects::gateway_api::{
    BackendObjectReference, ForwardBodyConfig, HttpAuthConfig, HttpExternalAuthFilter, HttpRouteFilter,
    HttpRouteRule,
};

use crate::backend::Speaks;
use crate::condition::Fault;
use crate::filter::EXTERNAL_AUTH;
use crate::policies::backends::is_token;
use crate::policies::external::{GRPC_TIMEOUT, MAX_BODY};
use crate::rules::Builder;

/// The guards of rule `index`; `None` where one cannot be made, and the rule must stay closed.
pub(super) fn read(index: usize, rule: &HttpRouteRule, builder: &mut Builder<'_>) -> Option<Vec<Guard>> {
    let mut guards = Some(Vec::new());
    for (number, of) in rule.filters.iter().enumerate().filter(|(_, of)| of.type_ == EXTERNAL_AUTH) {
        let at = format!("spec.rules[{index}].filters[{number}].externalAuth");
        guards = match (guards, guard(index, &at, of, builder)) {
            (Some(mut guards), Some(guard)) => {
                guards.push(guard);
                Some(guards)
            }
            _ => None,
        };
    }
    for (number, backend) in rule.backend_refs.iter().enumerate() {
        if backend.filters.iter().any(|of| of.type_ == EXTERNAL_AUTH) {
            let at = format!("spec.rules[{index}].backendRefs[{number}].filters");
            let problem = "ExternalAuth of one backend is not supported, only that of a whole rule";
            builder.close(index, &at, unsupported(problem.to_owned()));
            guards = None;
        }
    }
    guards
}

fn guard(index: usize, at: &str, of: &HttpRouteFilter, builder: &mut Builder<'_>) -> Option<Guard> {
    let question = of.external_auth.as_ref().ok_or_else(|| unsupported("it has no value".to_owned()));
    let (of, speaks) = match question.and_then(|of| Ok((of, speaks(of)?))) {
        Ok(asked) => asked,
        Err(fault) => {
            builder.close(index, at, fault);
            return None;
        }
    };
    let backend = builder.protector(&format!("{at}.backendRef"), (&of.backend_ref).into(), speaks)?;
    let made = match speaks {
        Speaks::Grpc => over_grpc(of, backend, host(&of.backend_ref, builder)).map(Guard::GrpcAuth),
        _ => over_http(of, backend).map(Guard::ExternalAuth),
    };
    made.map_err(|fault| builder.close(index, at, fault)).ok()
}

fn speaks(of: &HttpExternalAuthFilter) -> Result<Speaks, Fault> {
    match (&*of.protocol, &of.http, &of.grpc) {
        ("HTTP", _, None) => Ok(Speaks::Http),
        ("GRPC", None, _) => Ok(Speaks::Grpc),
        ("HTTP", ..) => Err(unsupported("grpc is for the protocol GRPC, and protocol is HTTP".to_owned())),
        ("GRPC", ..) => Err(unsupported("http is for the protocol HTTP, and protocol is GRPC".to_owned())),
        (other, ..) => Err(unsupported(format!("protocol \"{other}\" is neither HTTP nor GRPC"))),
    }
}

/// The name by which a service is asked over gRPC.
fn host(of: &BackendObjectReference, builder: &Builder<'_>) -> Arc<str> {
    let namespace = of.namespace.as_deref().unwrap_or(&builder.resolver.route.key.namespace);
    format!("{}.{namespace}.svc", of.name).into()
}

fn over_http(of: &HttpExternalAuthFilter, backend: BackendKey) -> Result<Box<ExternalAuth>, Fault> {
    if of.forward_body.as_ref().is_some_and(|body| body.max_size.unwrap_or_default() != 0) {
        let problem = "forwardBody is supported for the protocol GRPC only";
        return Err(unsupported(problem.to_owned()));
    }
    let none = HttpAuthConfig::default();
    let http = of.http.as_ref().unwrap_or(&none);
    let mut sent = names("http.allowedHeaders", &http.allowed_headers)?;
    sent.push("authorization".into());
    let copied = names("http.allowedResponseHeaders", &http.allowed_response_headers)?;
    if let Some(name) = copied.iter().find(|name| is_fixed(name)) {
        return Err(unsupported(format!("http.allowedResponseHeaders: {name} belongs to the connection")));
    }
    Ok(Box::new(ExternalAuth {
        // The question has the host of the request.
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

fn over_grpc(
    of: &HttpExternalAuthFilter,
    backend: BackendKey,
    authority: Arc<str>,
) -> Result<Box<GrpcAuth>, Fault> {
    let headers = of.grpc.as_ref().map_or(&[][..], |grpc| grpc.allowed_headers.as_slice());
    let base = Timeouts::default();
    let (send, read) = (GRPC_TIMEOUT, GRPC_TIMEOUT);
    let timeouts = Timeouts { connect: base.connect.min(GRPC_TIMEOUT), send, read, ..base };
    let timeouts = Timeouts { request: Some(GRPC_TIMEOUT), ..timeouts };
    Ok(Box::new(GrpcAuth {
        service: GrpcService { backend, authority, timeouts },
        max_body: of.forward_body.as_ref().map(max_body).transpose()?.unwrap_or_default(),
        // "Bodies over that size must be rejected."
        allow_partial_body: false,
        failure_mode_allow: false,
        context: Vec::new(),
        sent: names("grpc.allowedHeaders", headers)?,
    }))
}

fn max_body(of: &ForwardBodyConfig) -> Result<u32, Fault> {
    let size = of.max_size.unwrap_or_default();
    let fits = u32::try_from(size).ok().filter(|size| u64::from(*size) <= MAX_BODY);
    fits.ok_or_else(|| {
        unsupported(format!("forwardBody.maxSize {size} is not supported; the most is {MAX_BODY} bytes"))
    })
}

/// The prefix, and the path and query of the request behind it.
fn target(prefix: &str) -> Result<Template, Fault> {
    let good = |byte: u8| byte.is_ascii_graphic() && !b"?#\\".contains(&byte);
    let is_path = prefix.starts_with('/') && prefix.bytes().all(good);
    if !prefix.is_empty() && !is_path {
        return Err(unsupported(format!("http.path \"{}\" is no path", shown_url(prefix))));
    }
    let prefix = prefix.trim_end_matches('/');
    let text = (!prefix.is_empty()).then(|| TemplatePart::Text(prefix.into()));
    Ok(Template(text.into_iter().chain([TemplatePart::RequestUri]).collect()))
}

/// Names of headers in lower case.
fn names(field: &str, names: &[String]) -> Result<Vec<Arc<str>>, Fault> {
    let name = |name: &String| match is_token(name) {
        true => Ok(name.to_ascii_lowercase().into()),
        false => Err(unsupported(format!("{field}: \"{name}\" is no name of a header"))),
    };
    names.iter().map(name).collect()
}

/// Whether no service may say this header of a request.
fn is_fixed(name: &str) -> bool {
    is_of_the_hop(name) || name == "expect"
}

fn unsupported(problem: String) -> Fault {
    Fault::new("UnsupportedValue", problem)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(filter: Value) -> HttpExternalAuthFilter {
        serde_json::from_value(filter).expect("a filter")
    }

    fn http(filter: Value) -> Result<Box<ExternalAuth>, Fault> {
        over_http(&of(filter), "auth".into())
    }

    fn grpc(filter: Value) -> Result<Box<GrpcAuth>, Fault> {
        over_grpc(&of(filter), "auth".into(), "auth.shop.svc".into())
    }

    #[test]
    fn the_question_has_few_headers_and_the_request_gets_all_unless_some_are_named() {
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
    fn bodies_are_for_services_that_are_asked_over_grpc() {
        let size = |size: i64| json!({"forwardBody": {"maxSize": size}});
        assert!(http(size(0)).is_ok() && http(size(1)).is_err());
        assert!(http(json!({"forwardBody": {}})).is_ok());
        assert_eq!(grpc(size(1024)).unwrap().max_body, 1024);
        assert!(grpc(size(-1)).is_err() && grpc(size(1_048_577)).is_err());
        assert_eq!(grpc(json!({})).unwrap().service.timeouts.request, Some(GRPC_TIMEOUT));
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
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
            assert!(speaks(&of(filter.clone())).is_err(), "{filter}");
        }
    }
}
