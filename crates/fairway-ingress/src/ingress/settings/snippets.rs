//! Snippets of the settings ConfigMap: `http-snippet`, `server-snippet` and `location-snippet`. An unsupported line
//! closes all Ingresses, because it may restrict access.

use std::sync::Arc;

use fairway_model::{FixedResponseReason, Origin};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_snippet::{Problem, host_snippet, http_snippet, parse_directives, path_snippet};

use crate::ingress::closed::Closed;
use crate::ingress::defaults::{Defaults, SnippetDefaults};
use crate::ingress::snippets::conflicts;

/// The texts while keys are read.
#[derive(Default)]
pub(super) struct SnippetKeys {
    http: String,
    server: String,
    location: String,
}

impl SnippetKeys {
    /// Reads a key; `false` for any other.
    pub(super) fn read(&mut self, name: &str, value: &str) -> bool {
        let snippet = match name {
            "http-snippet" => &mut self.http,
            "server-snippet" => &mut self.server,
            "location-snippet" => &mut self.location,
            _ => return false,
        };
        value.clone_into(snippet);
        true
    }

    /// Puts the snippets into the defaults. `at` gives the origin of a key.
    pub(super) fn apply(
        &self,
        defaults: &mut Defaults,
        protection: UnsupportedProtection,
        at: impl Fn(&str) -> Origin,
    ) -> Option<Diagnostic> {
        let Self { http, server, location } = self;
        if [http, server, location].into_iter().all(String::is_empty) {
            return None;
        }
        match self.values(defaults) {
            Ok(values) => {
                let SnippetDefaults { allowed, believes_peers, .. } = defaults.snippets;
                defaults.snippets =
                    SnippetDefaults { allowed, believes_peers, origin: at("server-snippet"), ..values };
                None
            }
            Err((key, problem)) => {
                let (severity, consequence) = match protection {
                    UnsupportedProtection::Ignored => (
                        Severity::Warning,
                        "every Ingress is served without the snippets of the ConfigMap, as the flag says",
                    ),
                    UnsupportedProtection::Closed => {
                        defaults.closed = Some(Closed(FixedResponseReason::ProtectionUnavailable));
                        (Severity::Error, "all paths of all Ingresses answer 503")
                    }
                };
                let found = Diagnostic::new(severity, "unsupported-protection", at(key));
                Some(found.because(format!("{key}{problem}"), consequence))
            }
        }
    }

    fn values(&self, defaults: &Defaults) -> Result<SnippetDefaults, (&'static str, String)> {
        let in_http = |problem: Problem| ("http-snippet", format!(", {problem}"));
        let in_server = |problem: Problem| ("server-snippet", format!(", {problem}"));
        let in_location = |problem: Problem| ("location-snippet", format!(", {problem}"));
        let http = parse_directives("http-snippet", &self.http).map_err(in_http)?;
        let http = http_snippet(&http).map_err(in_http)?;
        let server = parse_directives("server-snippet", &self.server).map_err(in_server)?;
        let host = host_snippet(&[], &server, &http).map_err(in_server)?;
        let location = parse_directives("location-snippet", &self.location).map_err(in_location)?;
        let path = path_snippet(&location, &http.maps).map_err(in_location)?;
        if let Some(conflict) = conflicts::settings_snippet_conflict(&path, &host, defaults) {
            let key = if location.is_empty() { "server-snippet" } else { "location-snippet" };
            return Err((key, format!(" {conflict}")));
        }
        Ok(SnippetDefaults {
            http,
            host: (!host.is_empty()).then(|| Arc::new(host)),
            server,
            path: (!location.is_empty()).then(|| Arc::new(path)),
            location,
            ..SnippetDefaults::default()
        })
    }
}
