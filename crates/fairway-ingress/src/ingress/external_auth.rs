//! What asks another service whether a request may pass: the values of the annotations, or of the keys of the settings
//! ConfigMap, as one question. Knows neither an Ingress nor a ConfigMap.

use std::sync::Arc;

use fairway_model::variables::{self, template};
use fairway_model::{AuthCookies, AuthService, BackendKey, ExternalAuth, Template, Timeouts, shown_url};
use fairway_objects::service_url::{ServiceUrl, UrlHost, UrlPlace};
use fairway_objects::sign_in;
use fairway_snippet::QuestionSnippet;

/// Values as they were written; an absent one is `None`.
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

/// A question whose service was not looked for yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Everything but the backend.
    pub(crate) auth: ExternalAuth,
    /// Where the backend is, unless the request's own host is asked.
    pub(crate) host: Option<UrlHost>,
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The annotation; the key of the ConfigMap has `global-` before it.
    pub(crate) name: &'static str,
    pub(crate) problem: String,
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

impl Question {
    /// Reads the values.
    pub(crate) fn read(values: &AuthValues<'_>, timeouts: Timeouts) -> Result<Self, Wrong> {
        let wrong = |name, problem| Wrong { name, problem };
        let url = ServiceUrl::read(values.url).map_err(|problem| wrong("auth-url", problem))?;
        let (service, host) = match url.place {
            UrlPlace::OwnHost(scheme) => (AuthService::OwnHost { scheme }, None),
            UrlPlace::Host(host) => {
                let backend = BackendKey("".into());
                (AuthService::Backend { backend, host: host.name.clone() }, Some(host))
            }
        };
        let method = values.method.unwrap_or("GET");
        if !METHODS.contains(&method) {
            let problem = format!("\"{method}\" is none of {}", METHODS.join(", "));
            return Err(wrong("auth-method", problem));
        }
        let redirect = values.request_redirect.map(|text| with_variables("auth-request-redirect", text));
        let auth = ExternalAuth {
            service,
            method: Some(method.into()),
            target: url.target,
            copied: headers(values.response_headers.unwrap_or_default())
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

impl Question {
    /// Adds what a snippet says.
    pub(crate) fn add(&mut self, snippet: QuestionSnippet) {
        let QuestionSnippet { fields, connect, send, read, reads_link: _ } = snippet;
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

/// A text that becomes the value of a field.
pub(crate) fn with_variables(name: &'static str, text: &str) -> Result<Template, Wrong> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(Wrong { name, problem: format!("{:?} has a control character", shown_url(text)) });
    }
    template(text).map_err(|variable| Wrong { name, problem: variables::problem_of_url(text, &variable) })
}

/// A list of names of fields.
fn headers(list: &str) -> Result<Vec<Arc<str>>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match is_header(name) {
            true => Ok(name.into()),
            false => Err(format!("\"{name}\" is no name of a header")),
        })
        .collect()
}

/// Whether a header says where a message ends or what becomes of the connection, which no annotation decides.
pub(crate) fn is_of_the_hop(name: &str) -> bool {
    fairway_objects::annotations::is_of_the_hop(name) || name.eq_ignore_ascii_case("expect")
}

/// Whether ingress-nginx takes it for the name of a header.
pub(crate) fn is_header(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(good)
}

/// The page, with the request's own URL as a parameter, unless it has that parameter already.
fn sign_in(values: &AuthValues<'_>) -> Result<Option<Template>, Wrong> {
    let name = "auth-signin";
    let Some(url) = values.sign_in.filter(|url| !url.is_empty()) else { return Ok(None) };
    let parameter = values.sign_in_parameter.filter(|parameter| !parameter.is_empty()).unwrap_or("rd");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if !parameter.bytes().all(plain) {
        let problem = format!("\"{parameter}\" is no name of a parameter");
        return Err(Wrong { name: "auth-signin-redirect-param", problem });
    }
    sign_in::page(url, parameter).map(Some).map_err(|problem| Wrong { name, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_headers_are_those_that_ingress_nginx_takes() {
        let read = headers(" X-User ,, X_Groups").unwrap();
        assert_eq!(read.iter().map(|name| &**name).collect::<Vec<_>>(), ["X-User", "X_Groups"]);
        for wrong in ["X User", "X-User;", "a:b", "ä", "X.Y"] {
            assert!(headers(wrong).is_err(), "{wrong}");
        }
    }
}
