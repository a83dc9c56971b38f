//! Snippets of the settings ConfigMap: `http-snippet`, `server-snippet` and `location-snippet`. One that is not understood in every line
//! closes all Ingresses, as it may restrict who is let in.

use std::sync::Arc;

use fairway_model::{AnswerReason, Origin};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_snippet::{Problem, directives, host_snippet, http_snippet, path_snippet};

use crate::ingress::closed::Closed;
use crate::ingress::defaults::{Defaults, SnippetDefaults};
use crate::ingress::snippets::conflicts;

/// The texts, while the keys are read.
#[derive(Default)]
pub(super) struct SnippetKeys {
    http: String,
    server: String,
    location: String,
}

impl SnippetKeys {
    /// Takes a key; `false` where it is none of these.
    pub(super) fn take(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "http-snippet" => &mut self.http,
            "server-snippet" => &mut self.server,
            "location-snippet" => &mut self.location,
            _ => return false,
        };
        value.clone_into(place);
        true
    }

    /// Makes values of them. `at` is the place of a key.
    pub(super) fn settle(
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
                        defaults.closed = Some(Closed(AnswerReason::ProtectionUnavailable));
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
        let http = directives("http-snippet", &self.http).map_err(in_http)?;
        let http = http_snippet(&http).map_err(in_http)?;
        let server = directives("server-snippet", &self.server).map_err(in_server)?;
        let host = host_snippet(&[], &server, &http).map_err(in_server)?;
        let location = directives("location-snippet", &self.location).map_err(in_location)?;
        let path = path_snippet(&location, &http.maps).map_err(in_location)?;
        if let Some(conflict) = conflicts::of_settings(&path, &host, defaults) {
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
