//! Keys for the external authentication of all Ingresses (`global-auth-*`).

use std::time::Duration;

use fairway_model::{AuthCache, FixedResponseReason, Origin, Template};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_snippet::{AuthSnippet, Problem, auth_snippet, parse_directives};

use crate::ingress::auth_cache;
use crate::ingress::closed::Closed;
use crate::ingress::defaults::Defaults;
use crate::ingress::external_auth::{AuthRequest, AuthValues, InvalidValue};
use crate::ingress::settings::problem::KeyProblem;
use crate::ingress::snippets::conflicts;

const SNIPPET: &str = "global-auth-snippet";

/// The values as written.
#[derive(Debug, Default)]
pub(super) struct GlobalAuth {
    url: Option<String>,
    method: Option<String>,
    sign_in: Option<String>,
    sign_in_parameter: Option<String>,
    response_headers: Option<String>,
    request_redirect: Option<String>,
    snippet: Option<String>,
    always_set_cookie: bool,
    cache_key: Option<Template>,
    cache_times: Option<Vec<(Option<u16>, Duration)>>,
}

impl GlobalAuth {
    /// Reads one key, by its name after `global-auth-`.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Result<(), KeyProblem> {
        let slot = match name {
            "url" => &mut self.url,
            "method" => &mut self.method,
            "signin" => &mut self.sign_in,
            "signin-redirect-param" => &mut self.sign_in_parameter,
            "response-headers" => &mut self.response_headers,
            "request-redirect" => &mut self.request_redirect,
            "always-set-cookie" => {
                self.always_set_cookie = parse_bool(value).ok_or(KeyProblem::NotA("true or false"))?;
                return Ok(());
            }
            "snippet" => &mut self.snippet,
            "cache-key" => {
                self.cache_key = auth_cache::key(value).map_err(|_| {
                    KeyProblem::Lost(
                        "it has another variable than those that work, or none that tells clients apart",
                        "the service is asked about each request",
                    )
                })?;
                return Ok(());
            }
            "cache-duration" => {
                let times = auth_cache::cache_times(value);
                self.cache_times = Some(times.map_err(|_| KeyProblem::NotA("list of statuses and a time"))?);
                return Ok(());
            }
            _ => return Err(KeyProblem::Unknown),
        };
        *slot = (!value.is_empty()).then(|| value.to_owned());
        Ok(())
    }

    fn auth_cache(&self) -> Option<AuthCache> {
        let usual = || auth_cache::cache_times("").ok();
        Some(AuthCache { key: self.cache_key.clone()?, times: self.cache_times.clone().or_else(usual)? })
    }

    fn snippet(&self, defaults: &Defaults) -> Result<AuthSnippet, String> {
        let suffix = |problem: Problem| format!(", {problem}");
        let directives =
            parse_directives(SNIPPET, self.snippet.as_deref().unwrap_or_default()).map_err(suffix)?;
        let snippet = auth_snippet(&directives, &defaults.snippets.http.maps).map_err(suffix)?;
        match conflicts::auth_snippet_conflict(&snippet, defaults) {
            Some(conflict) => Err(format!(" {conflict}")),
            None => Ok(snippet),
        }
    }

    /// Puts the external authentication into the defaults. If it is unreadable, all Ingresses are closed, because no
    /// service can be asked. `at` gives the origin of a key.
    pub(super) fn apply(
        &self,
        defaults: &mut Defaults,
        protection: UnsupportedProtection,
        at: impl Fn(&str) -> Origin,
    ) -> Option<Diagnostic> {
        let values = AuthValues {
            url: self.url.as_deref()?,
            method: self.method.as_deref(),
            sign_in: self.sign_in.as_deref(),
            sign_in_parameter: self.sign_in_parameter.as_deref(),
            response_headers: self.response_headers.as_deref(),
            request_redirect: self.request_redirect.as_deref(),
            always_set_cookie: self.always_set_cookie,
        };
        match AuthRequest::read(&values, defaults.forwarding.timeouts) {
            Ok(mut question) => {
                question.auth.kept = self.auth_cache();
                let snippet = self.snippet(defaults);
                if let Ok(snippet) = &snippet {
                    question.add(snippet.clone());
                }
                defaults.authentication.global = Some(question);
                let problem = snippet.err()?;
                let (severity, consequence) = match protection {
                    UnsupportedProtection::Ignored => {
                        (Severity::Warning, "every Ingress is served without it, as the flag says")
                    }
                    UnsupportedProtection::Closed => {
                        defaults.closed = Some(Closed(FixedResponseReason::ProtectionUnavailable));
                        (Severity::Error, "all paths of all Ingresses answer 503")
                    }
                };
                let found = Diagnostic::new(severity, "unsupported-protection", at(SNIPPET));
                Some(found.because(format!("{SNIPPET}{problem}"), consequence))
            }
            Err(InvalidValue { name, problem }) => {
                defaults.closed = Some(Closed(FixedResponseReason::ProtectionUnavailable));
                let key = format!("global-{name}");
                let found = Diagnostic::new(Severity::Error, "invalid-protection", at(&key));
                Some(found.because(format!("{key}: {problem}"), "all paths of all Ingresses answer 503"))
            }
        }
    }
}
