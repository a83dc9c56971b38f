//! The `Location` of a redirect, as far as known: an unknown query is written as `?...`.

use fairway_model::{HttpsRedirect, PathRewrite, RedirectTarget};

use super::configuration::HttpListener;
use super::recorded_request::RequestPaths;
use crate::steps::CompiledRedirect;

/// The same URL with https.
pub(super) fn to_https(
    to: &HttpsRedirect,
    listener: &HttpListener<'_>,
    request: &RequestPaths<'_>,
) -> String {
    let port = port(listener.https_port, if to.explicit_port { 0 } else { 443 });
    let target = target(request, to.keep_trailing_slash);
    format!("https://{}{port}{target}", request.known_request.host)
}

/// The location that the rule says.
pub(super) fn elsewhere(
    to: &CompiledRedirect,
    place: &HttpListener<'_>,
    request: &RequestPaths<'_>,
    prefix: usize,
) -> String {
    let own_scheme = if request.known_request.over_tls { "https" } else { "http" };
    let public_port = place.listener.public_port;
    match &to.target {
        RedirectTarget::Url(url) => url.to_string(),
        RedirectTarget::Path(path) => format!("{path}{}", query(request)),
        RedirectTarget::Host(host) => {
            format!("{own_scheme}://{host}:{public_port}{}", target(request, false))
        }
        RedirectTarget::Parts { scheme, host, port: own_port, path, keep_query } => {
            let named = scheme.as_deref();
            let usual = named.map(usual_port);
            let number = own_port.or(usual).unwrap_or(public_port);
            let scheme = named.unwrap_or(own_scheme);
            let host = host.as_deref().unwrap_or(request.known_request.host);
            let port = port(number, usual_port(scheme));
            let path = new_path(path.as_ref(), to, request, prefix);
            let query = if *keep_query { query(request) } else { "" };
            format!("{scheme}://{host}{port}{path}{query}")
        }
    }
}

fn new_path(
    path: Option<&PathRewrite>,
    to: &CompiledRedirect,
    request: &RequestPaths<'_>,
    prefix: usize,
) -> String {
    if let Some(PathRewrite::Full(full)) = path {
        return if full.starts_with('/') { full.to_string() } else { format!("/{full}") };
    }
    let mut written = Vec::new();
    let applied = to.path.as_ref().is_some_and(|rewrite| {
        rewrite.apply(request.in_form(rewrite.path_form()), b"", prefix, &mut written)
    });
    if applied {
        String::from_utf8_lossy(&written).into_owned()
    } else {
        request.known_request.path.to_owned()
    }
}

/// The target as received, with or without a trailing slash.
fn target(request: &RequestPaths<'_>, keeps_slash: bool) -> String {
    let path = request.known_request.path;
    match request.known_request.has_query {
        true => format!("{path}{}", query(request)),
        false if keeps_slash => path.to_owned(),
        false => path.strip_suffix('/').unwrap_or(path).to_owned(),
    }
}

fn query(request: &RequestPaths<'_>) -> &'static str {
    if request.known_request.has_query { "?..." } else { "" }
}

fn port(number: u16, usual: u16) -> String {
    if number == usual { String::new() } else { format!(":{number}") }
}

fn usual_port(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}
