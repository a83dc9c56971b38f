//! The question to another service. Its backend is looked for by whoever knows which references may be followed.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::variables::{self, template};
use fairway_model::{AuthCookies, AuthService, BackendKey, Template, Timeouts, shown_url};
use fairway_objects::annotations::is_of_the_hop;
use fairway_objects::{policies as types, sign_in};

use crate::policies::reading::Wrong;
use crate::policies::value::some_time;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// The parameter of the page where clients sign in that has the URL they wanted.
const PARAMETER: &str = "rd";

/// Reads a question of a policy in `namespace`; its backend has no name yet.
pub(crate) fn read(of: &types::ExternalAuth, namespace: &str) -> Result<fairway_model::ExternalAuth, Wrong> {
    let method = of.method.as_deref().unwrap_or("GET");
    if !METHODS.contains(&method) {
        let problem = format!("\"{method}\" is none of {}", METHODS.join(", "));
        return Err(Wrong::new("spec.externalAuth.method", problem));
    }
    let sign_in = of.sign_in_url.as_deref().filter(|url| !url.is_empty());
    let sign_in = sign_in.map(|url| sign_in::page(url, PARAMETER)).transpose();
    let service = &of.backend_ref;
    let namespace = service.namespace.as_deref().unwrap_or(namespace);
    let host = match &of.host {
        Some(host) if !is_host(host) => {
            return Err(Wrong::new("spec.externalAuth.host", format!("\"{}\" is no host", shown_url(host))));
        }
        Some(host) => host.as_str().into(),
        None => Arc::from(format!("{}.{namespace}.svc", service.name)),
    };
    Ok(fairway_model::ExternalAuth {
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
    })
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
