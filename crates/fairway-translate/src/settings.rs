//! The settings ConfigMap: what the data plane as a whole does, and what an Ingress does that says nothing.
//!
//! Keys of ingress-nginx and of the F5 controller that mean the same have the same effect.

mod forwarded;
mod keys;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{AnswerReason, Origin, Settings, Timeouts};

use crate::access::DefaultAccess;
use crate::claim::Claim;
use crate::diagnostic::{Diagnostic, Severity};
use crate::limits;
use crate::options::Options;
use crate::plan::Closed;
use crate::redirect::ToHttps;
use crate::resources::{Kind, ObjectKey, Resources, Sourced};
use forwarded::{Believed, Forwarded};
use k8s_openapi::api::core::v1::ConfigMap;

/// What an Ingress does that says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) to_https: ToHttps,
    /// `http-redirect-code`.
    pub(crate) redirect_status: u16,
    /// `no-tls-redirect-locations`.
    pub(crate) never_to_https: Vec<Arc<str>>,
    /// The value of `Strict-Transport-Security`, where it is sent.
    pub(crate) hsts: Option<Arc<str>>,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_body: Option<u64>,
    /// In lower case.
    pub(crate) allowed_headers: BTreeSet<String>,
    pub(crate) access: DefaultAccess,
    /// Who may claim any address.
    pub(crate) claims: Vec<Claim>,
    /// Why all Ingresses answer 503: the ConfigMap asks for protection that is not given yet.
    pub(crate) closed: Option<Closed>,
}

/// What reading the ConfigMap gives.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) settings: Settings,
    pub(crate) defaults: Defaults,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The parts of `Strict-Transport-Security` (RFC 6797 §6.1), with the defaults of ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hsts {
    sent: Sent,
    max_age: u64,
    include_subdomains: bool,
    preload: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Yes,
    No,
}

impl Default for Hsts {
    fn default() -> Self {
        Self { sent: Sent::Yes, max_age: 31_536_000, include_subdomains: true, preload: false }
    }
}

impl Hsts {
    fn value(self) -> Option<Arc<str>> {
        let subdomains = if self.include_subdomains { "; includeSubDomains" } else { "" };
        let preload = if self.preload { "; preload" } else { "" };
        (self.sent == Sent::Yes).then(|| format!("max-age={}{subdomains}{preload}", self.max_age).into())
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            to_https: ToHttps::WithCertificate,
            redirect_status: 308,
            never_to_https: vec!["/.well-known/acme-challenge".into()],
            hsts: Hsts::default().value(),
            timeouts: limits::TIMEOUTS,
            max_body: Some(limits::MAX_BODY),
            allowed_headers: BTreeSet::new(),
            access: DefaultAccess::default(),
            claims: Vec::new(),
            closed: None,
        }
    }
}

/// Reads the ConfigMap that the options name.
pub(crate) fn read(resources: &Resources, options: &Options) -> Reading {
    let mut draft = Draft::new(options);
    let Some(key) = &options.configmap else { return draft.finish(|_| Origin::default()) };
    let object = Origin::object("ConfigMap", &key.namespace, &key.name);
    let Some(map) = resources.config_maps.get(key) else {
        let found = Diagnostic::new(Severity::Warning, "missing-reference", object.clone());
        let problem = "the settings ConfigMap does not exist";
        draft.diagnostics.push(found.because(problem, "every setting has its default"));
        return draft.finish(|_| object.clone());
    };
    draft.read_all(key, map);
    draft.finish(|name| map.origin(Kind::ConfigMap, key, &format!("data.{name}")))
}

/// Settings while they are read key by key.
struct Draft<'a> {
    options: &'a Options,
    settings: Settings,
    defaults: Defaults,
    hsts: Hsts,
    forwarded: Forwarded,
    diagnostics: Vec<Diagnostic>,
}

/// Why a key has not the effect it should have.
#[derive(Clone, Copy)]
enum Trouble {
    /// The value is not what it should be.
    NotA(&'static str),
    /// A part of the value is not what it should be, and what becomes of it.
    Partly(&'static str, &'static str),
    /// The key works, with something to know.
    Note(&'static str, &'static str),
    /// The key has not the whole effect that it has in ingress-nginx.
    Lost(&'static str, &'static str),
    /// The key protects and is not supported.
    Unprotected(&'static str),
    /// The key is not known.
    Unknown,
}

impl<'a> Draft<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            options,
            settings: Settings { downstream: options.downstream, ..Settings::default() },
            defaults: Defaults::default(),
            hsts: Hsts::default(),
            forwarded: Forwarded::default(),
            diagnostics: Vec::new(),
        }
    }

    fn read_all(&mut self, key: &ObjectKey, map: &Sourced<ConfigMap>) {
        for (name, value) in map.object.data.iter().flatten() {
            let Err(trouble) = self.read_key(name, value.trim()) else { continue };
            let origin = map.origin(Kind::ConfigMap, key, &format!("data.{name}"));
            let found = self.describe(trouble, &origin, (name, value));
            self.diagnostics.push(found);
        }
    }

    fn describe(&mut self, trouble: Trouble, origin: &Origin, (name, value): (&str, &str)) -> Diagnostic {
        let found = |severity, code| Diagnostic::new(severity, code, origin.clone());
        match trouble {
            Trouble::NotA(what) => found(Severity::Warning, "invalid-setting")
                .because(format!("{name}: \"{value}\" is not {what}"), "the default is used"),
            Trouble::Partly(what, consequence) => found(Severity::Error, "invalid-setting")
                .because(format!("{name}: \"{value}\" is not {what}"), consequence),
            Trouble::Note(problem, consequence) => {
                found(Severity::Note, "setting").because(format!("{name}: {problem}"), consequence)
            }
            Trouble::Lost(problem, consequence) => found(Severity::Warning, "unsupported-setting")
                .because(format!("{name}: {problem}"), consequence),
            Trouble::Unknown => found(Severity::Warning, "unknown-setting").because(
                format!("{name} is not a setting that is read"),
                format!("\"{}\" has no effect", value.lines().next().unwrap_or_default()),
            ),
            Trouble::Unprotected(effect) => {
                let problem = format!("{name} is not supported yet: {effect}");
                if self.options.unsupported_protection == crate::UnsupportedProtection::Ignored {
                    let consequence = "every Ingress is served without it, as the flag says";
                    return found(Severity::Warning, "unsupported-protection").because(problem, consequence);
                }
                self.defaults.closed = Some(Closed(AnswerReason::ProtectionUnavailable));
                found(Severity::Error, "unsupported-protection")
                    .because(problem, "all paths of all Ingresses answer 503")
            }
        }
    }

    /// `at` is the place of a key.
    fn finish(mut self, at: impl Fn(&str) -> Origin) -> Reading {
        self.defaults.hsts = self.hsts.value();
        let Believed { ranges, claim, problem } = self.forwarded.settle(&self.options.trust.forwarders, at);
        self.settings.forwarded.ranges = ranges;
        self.diagnostics.extend(problem);
        let claims = claim.into_iter().chain(Claim::by_proxy_protocol(&self.options.trust));
        self.defaults.claims = claims.collect();
        self.defaults.access.claimed = self.defaults.claims.iter().map(|claim| claim.means).collect();
        Reading { settings: self.settings, defaults: self.defaults, diagnostics: self.diagnostics }
    }
}

/// A time as nginx reads it: a whole number of seconds, or with one of `ms`, `s`, `m`, `h`, `d`.
fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    let unit = match &text[digits.len()..] {
        "ms" => return Some(Duration::from_millis(number)),
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(unit).map(Duration::from_secs)
}
