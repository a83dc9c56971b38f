//! The settings while they are read key by key, with diagnostics.

use fairway_model::{FixedResponseReason, HeaderNames, Origin, Settings, StreamSettings};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::{Options, ProxySenders, UnsupportedProtection};
use fairway_objects::resources::Resources;

use crate::ingress::closed::Closed;
use crate::ingress::defaults::{Defaults, ForwardingDefaults, Hsts};
use crate::ingress::firewall;
use crate::ingress::settings::authentication::GlobalAuth;
use crate::ingress::settings::compression::CompressionKeys;
use crate::ingress::settings::firewall::FirewallKeys;
use crate::ingress::settings::forwarded::{Forwarded, TrustedForwarders};
use crate::ingress::settings::headers::HeaderKeys;
use crate::ingress::settings::log_format::LogFormatKeys;
use crate::ingress::settings::map_entries::MapKeys;
use crate::ingress::settings::problem::KeyProblem;
use crate::ingress::settings::snippets::SnippetKeys;
use crate::ingress::settings::tracing::TracingKeys;
use crate::ingress::trust::UniversalTrust;

/// The result of reading the ConfigMap.
#[derive(Clone, Debug)]
pub(crate) struct SettingsReading {
    pub(crate) settings: Settings,
    pub(crate) defaults: Defaults,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Settings while they are read key by key.
pub(super) struct SettingsDraft<'a> {
    pub(super) options: &'a Options,
    pub(super) settings: Settings,
    pub(super) defaults: Defaults,
    /// Whether client connections carry more than one request; false for `keep-alive: "0"`.
    pub(super) keep_alive: bool,
    pub(super) hsts: Hsts,
    pub(super) forwarded: Forwarded,
    pub(super) header_names: HeaderNameKeys,
    pub(super) global_auth: GlobalAuth,
    pub(super) compression: CompressionKeys,
    pub(super) log_format: LogFormatKeys,
    pub(super) headers: HeaderKeys,
    pub(super) maps: MapKeys,
    pub(super) snippets: SnippetKeys,
    pub(super) tracing: TracingKeys,
    pub(super) firewall: FirewallKeys,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// The keys for header names, combined as in nginx.
#[derive(Debug, Default)]
pub(super) struct HeaderNameKeys {
    /// `enable-underscores-in-headers`.
    pub(super) underscores: bool,
    /// `ignore-invalid-headers` is false.
    pub(super) allows_any: bool,
}

impl HeaderNameKeys {
    fn resolve(&self) -> HeaderNames {
        match (self.allows_any, self.underscores) {
            (true, _) => HeaderNames::Any,
            (false, true) => HeaderNames::Underscores,
            (false, false) => HeaderNames::Plain,
        }
    }
}

/// A key with its value and origin.
pub(super) struct Setting<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    pub(super) origin: Origin,
}

impl<'a> SettingsDraft<'a> {
    /// The defaults.
    pub(super) fn new(options: &'a Options) -> Self {
        Self {
            options,
            settings: Settings {
                downstream: options.clients.downstream.clone(),
                streams: StreamSettings { datagrams: options.clients.datagrams, ..StreamSettings::default() },
                ..Settings::default()
            },
            defaults: Defaults {
                forwarding: ForwardingDefaults {
                    path: options.hosts.forwarded_path,
                    ..ForwardingDefaults::default()
                },
                ..Defaults::default()
            },
            keep_alive: true,
            hsts: Hsts::default(),
            forwarded: Forwarded::default(),
            header_names: HeaderNameKeys::default(),
            global_auth: GlobalAuth::default(),
            compression: CompressionKeys::default(),
            log_format: LogFormatKeys::default(),
            headers: HeaderKeys::default(),
            maps: MapKeys::default(),
            snippets: SnippetKeys::default(),
            tracing: TracingKeys::default(),
            firewall: FirewallKeys::default(),
            diagnostics: Vec::new(),
        }
    }

    /// Reports that a key does not have its full effect.
    pub(super) fn report(&mut self, problem: KeyProblem, setting: Setting<'_>) {
        let Setting { name, value, origin } = setting;
        let found = |severity, code| Diagnostic::new(severity, code, origin);
        let found = match problem {
            KeyProblem::NotA(what) => found(Severity::Warning, "invalid-setting")
                .because(format!("{name}: \"{value}\" is not {what}"), "the default is used"),
            KeyProblem::NotASecret(what) => found(Severity::Warning, "invalid-setting")
                .because(format!("{name}: the value is not {what}"), "the default is used"),
            KeyProblem::Partly(what, consequence) => found(Severity::Error, "invalid-setting")
                .because(format!("{name}: \"{value}\" is not {what}"), consequence),
            KeyProblem::Note(problem, consequence) => {
                found(Severity::Note, "setting").because(format!("{name}: {problem}"), consequence)
            }
            KeyProblem::Lost(problem, consequence) => found(Severity::Warning, "unsupported-setting")
                .because(format!("{name}: {problem}"), consequence),
            KeyProblem::Unknown => found(Severity::Warning, "unknown-setting").because(
                format!("{name} is not a setting that is read"),
                format!("\"{}\" has no effect", value.lines().next().unwrap_or_default()),
            ),
            KeyProblem::Unreadable(problem) => {
                let (severity, consequence) = self.unprotected();
                found(severity, "unsupported-protection").because(format!("{name}: {problem}"), consequence)
            }
            KeyProblem::NoFirewall => {
                let (severity, consequence) = self.unprotected();
                found(severity, "unsupported-protection")
                    .because(format!("{name}: {}", firewall::NO_FIREWALL), consequence)
            }
            KeyProblem::Unprotected(effect) => {
                let (severity, consequence) = self.unprotected();
                found(severity, "unsupported-protection")
                    .because(format!("{name} is not supported yet: {effect}"), consequence)
            }
        };
        self.diagnostics.push(found);
    }

    /// Handles unsupported protection: all Ingresses are closed, unless the operator ignores it.
    fn unprotected(&mut self) -> (Severity, &'static str) {
        match self.options.hosts.unsupported_protection {
            UnsupportedProtection::Ignored => {
                (Severity::Warning, "every Ingress is served without it, as the flag says")
            }
            UnsupportedProtection::Closed => {
                self.defaults.closed = Some(Closed(FixedResponseReason::ProtectionUnavailable));
                (Severity::Error, "all paths of all Ingresses answer 503")
            }
        }
    }

    /// The resulting settings; `at` gives the origin of a key.
    pub(super) fn finish(mut self, resources: &Resources, at: impl Fn(&str) -> Origin) -> SettingsReading {
        if !self.keep_alive {
            // nginx responds before it closes: a connection still waits for its first request.
            self.settings.downstream.requests_per_connection = 1;
        }
        self.defaults.hsts = self.hsts.value();
        self.defaults.compression = self.compression.resolve();
        self.diagnostics.extend(self.headers.apply(resources, &mut self.defaults, &at));
        let introduced = self.forwarded.proxy_protocol(&at);
        self.settings.proxy_protocol = introduced.introduction;
        self.diagnostics.extend(introduced.problem);
        let TrustedForwarders { trust, everybody, problem } =
            self.forwarded.resolve(&self.options.trust.forwarders, &at);
        self.defaults.snippets.believes_peers = !trust.ranges.is_empty()
            || self.settings.proxy_protocol.is_some()
            || self.options.trust.proxy_protocol != ProxySenders::Nobody;
        self.settings.forwarded = trust;
        self.settings.downstream.header_names = self.header_names.resolve();
        (self.settings.blocked, self.settings.unlogged_targets) = self.maps.resolve();
        self.diagnostics.extend(problem);
        let choice = self.options.hosts.log_format;
        self.diagnostics.extend(self.log_format.apply(choice, &mut self.settings, &at));
        let of_tracing = self.tracing.apply(&mut self.settings, &mut self.defaults.tracing, &at);
        self.diagnostics.extend(of_tracing);
        let protection = self.options.hosts.unsupported_protection;
        self.diagnostics.extend(self.firewall.apply(&mut self.defaults, protection, &at));
        self.diagnostics.extend(self.snippets.apply(&mut self.defaults, protection, &at));
        self.diagnostics.extend(self.global_auth.apply(&mut self.defaults, protection, at));
        let by_proxy_protocol = UniversalTrust::by_proxy_protocol(&self.options.trust);
        let trusts: Vec<_> =
            everybody.into_iter().chain(by_proxy_protocol).chain(introduced.everybody).collect();
        self.defaults.source_ranges.claimable_by = trusts.iter().map(|trust| trust.source).collect();
        self.defaults.universal_trust = trusts;
        SettingsReading { settings: self.settings, defaults: self.defaults, diagnostics: self.diagnostics }
    }
}
