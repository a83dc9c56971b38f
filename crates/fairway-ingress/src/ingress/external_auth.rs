//! External authentication from annotations or keys of the settings ConfigMap.

use std::sync::Arc;

use fairway_model::variables::{self, parse_template};
use fairway_model::{AuthCookies, AuthService, BackendKey, ExternalAuth, Template, Timeouts, redact_url};
use fairway_objects::service_url::{ServiceUrl, UrlDestination, UrlHost};
use fairway_objects::sign_in;
use fairway_snippet::AuthSnippet;

/// Values as written; `None` if absent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuthValues<'a> {
    pub(crate) url: &'a str,
    pub(crate) method: Option<&'a str>,
    pub(crate) sign_in: Option<&'a str>,
    pub(crate) sign_in_parameter: Option<&'a str>,
    pub(crate) response_headers: Option<&'a str>,
    pub(crate) request_redirect: Option<&'a str>,
    pub(crate) always_set_cookie: bool,
}

/// An auth request whose service is not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthRequest {
    /// Everything except the backend.
    pub(crate) auth: ExternalAuth,
    /// The host of the backend, unless the request's own host is used.
    pub(crate) host: Option<UrlHost>,
}

/// An unusable value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidValue {
    /// The annotation; the ConfigMap key has the prefix `global-`.
    pub(crate) name: &'static str,
    pub(crate) problem: String,
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

impl AuthRequest {
    /// Reads the values.
    pub(crate) fn read(values: &AuthValues<'_>, timeouts: Timeouts) -> Result<Self, InvalidValue> {
        let wrong = |name, problem| InvalidValue { name, problem };
        let url = ServiceUrl::parse(values.url).map_err(|problem| wrong("auth-url", problem))?;
        let (service, host) = match url.destination {
            UrlDestination::OwnHost(scheme) => (AuthService::OwnHost { scheme }, None),
            UrlDestination::Host(host) => {
                let backend = BackendKey("".into());
                (AuthService::Backend { backend, host: host.name.clone() }, Some(host))
            }
        };
        let method = values.method.unwrap_or("GET");
        if !METHODS.contains(&method) {
            let problem = format!("\"{method}\" is none of {}", METHODS.join(", "));
            return Err(wrong("auth-method", problem));
        }
        let redirect = values.request_redirect.map(|text| template_value("auth-request-redirect", text));
        let auth = ExternalAuth {
            service,
            method: Some(method.into()),
            target: url.target,
            copied: header_list(values.response_headers.unwrap_or_default())
                .map_err(|problem| wrong("auth-response-headers", problem))?,
            fields: Vec::new(),
            redirect: redirect.transpose()?,
            sign_in: sign_in(values)?,
            cookies: if values.always_set_cookie { AuthCookies::Always } else { AuthCookies::OfSuccess },
            timeouts,
            kept: None,
            filter: None,
        };
        Ok(Self { auth, host })
    }
}

impl AuthRequest {
    /// Adds the settings of a snippet.
    pub(crate) fn add(&mut self, snippet: AuthSnippet) {
        let AuthSnippet { fields, connect, send, read, depends_on_connection: _ } = snippet;
        self.auth.fields.extend(fields);
        let usual = self.auth.timeouts;
        self.auth.timeouts = Timeouts {
            connect: connect.unwrap_or(usual.connect),
            send: send.unwrap_or(usual.send),
            read: read.unwrap_or(usual.read),
            ..usual
        };
    }
}

/// Parses text with variables for a header value.
pub(crate) fn template_value(name: &'static str, text: &str) -> Result<Template, InvalidValue> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(InvalidValue {
            name,
            problem: format!("{:?} has a control character", redact_url(text)),
        });
    }
    parse_template(text)
        .map_err(|variable| InvalidValue { name, problem: variables::url_problem(text, &variable) })
}

/// Parses a list of header names.
fn header_list(list: &str) -> Result<Vec<Arc<str>>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match is_header_name(name) {
            true => Ok(name.into()),
            false => Err(format!("\"{name}\" is no name of a header")),
        })
        .collect()
}

/// Whether a header frames the message or controls the connection, which annotations cannot change.
pub(crate) fn is_hop_header(name: &str) -> bool {
    fairway_objects::annotations::is_hop_header(name) || name.eq_ignore_ascii_case("expect")
}

/// Whether ingress-nginx accepts it as a header name.
pub(crate) fn is_header_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(good)
}

/// The sign-in page with the URL of the request as a parameter, unless the page already has that parameter.
fn sign_in(values: &AuthValues<'_>) -> Result<Option<Template>, InvalidValue> {
    let name = "auth-signin";
    let Some(url) = values.sign_in.filter(|url| !url.is_empty()) else { return Ok(None) };
    let parameter = values.sign_in_parameter.filter(|parameter| !parameter.is_empty()).unwrap_or("rd");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if !parameter.bytes().all(plain) {
        let problem = format!("\"{parameter}\" is no name of a parameter");
        return Err(InvalidValue { name: "auth-signin-redirect-param", problem });
    }
    sign_in::page(url, parameter).map(Some).map_err(|problem| InvalidValue { name, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_are_accepted_as_in_ingress_nginx() {
        let read = header_list(" X-User ,, X_Groups").unwrap();
        assert_eq!(read.iter().map(|name| &**name).collect::<Vec<_>>(), ["X-User", "X_Groups"]);
        for wrong in ["X User", "X-User;", "a:b", "ä", "X.Y"] {
            assert!(header_list(wrong).is_err(), "{wrong}");
        }
    }
}
