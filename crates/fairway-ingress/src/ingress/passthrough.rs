//! `ssl-passthrough`: forwards a host's TLS unchanged to the backend of its `/`. Other paths and annotations then
//! apply only to plain requests, so a protection that would be bypassed closes Ingresses that ask for both
//! (docs/design/0052).

use std::sync::Arc;

use fairway_model::{FixedResponseReason, HostPattern, Origin, StreamKey, StreamPolicy, StreamRoute};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::{Options, UnsupportedProtection};
use k8s_openapi::api::networking::v1::IngressRule;

use crate::ingress::closed::{self, Closed};
use crate::ingress::context::Context;
use crate::ingress::contributions::{Contributions, GuardStage};
use crate::ingress::fairway_annotations;
use crate::ingress::layout::Layout;
use crate::ingress::location::{Location, PathKind};
use crate::ingress::ownership::HostIngresses;
use crate::ingress::reader::{Annotations, Reader};
use crate::ingress::rules::Builder;
use crate::ingress::served::ServedIngress;
use crate::listeners::ingress_table;

/// Annotations that restrict access. Unsupported ones close an Ingress anyway.
const PROTECTIVE_ANNOTATIONS: [&str; 13] = [
    "allowlist-source-range",
    "auth-tls-secret",
    "auth-type",
    "auth-url",
    "configuration-snippet",
    "denylist-source-range",
    "enable-modsecurity",
    "limit-connections",
    "limit-rate",
    "limit-rpm",
    "limit-rps",
    "server-snippet",
    "whitelist-source-range",
];

/// Fairway's own annotations that restrict access.
const OWN_PROTECTIVE_ANNOTATIONS: [&str; 7] =
    ["api-key", "authorization", "deny", "extension", "jwt", "oidc", "rate-limits"];

/// Consequence if the operator ignores unsupported protection.
const IGNORED_CONSEQUENCE: &str = "clients over TLS reach the backend without it, as the flag says";

/// An Ingress and its protections.
struct Protections<'a> {
    annotations: Annotations<'a>,
    contributions: &'a Contributions,
    /// Whether a snippet of the settings restricts access to all hosts.
    by_snippet: bool,
    /// The origin of a field of the Ingress.
    origin: &'a dyn Fn(&str) -> Origin,
}

/// Closes an Ingress that combines passthrough with a protection, which would apply to plain requests only.
pub(crate) fn close_protected(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) {
    let rules = reader.ingress.object.spec.as_ref().and_then(|spec| spec.rules.as_ref());
    // TLS for names without an Ingress always terminates at Fairway.
    let names_a_host = |rule: &IngressRule| rule.host.as_ref().is_some_and(|host| !host.is_empty());
    if !contributions.host.passthrough || !rules.into_iter().flatten().any(names_a_host) {
        return;
    }
    let protection = context.inputs.options.hosts.unsupported_protection;
    let consequence = format!("{}, and TLS connections to its hosts are closed", closed::CLOSED_CONSEQUENCE);
    let origin = |field: &str| reader.field_origin(field);
    let by_snippet = context.defaults.snippets.host.as_ref().is_some_and(|host| host.protects());
    let protections =
        Protections { annotations: reader.annotations(), contributions, by_snippet, origin: &origin };
    let found = protections.bypassed(protection, &consequence);
    if !found.is_empty() && protection == UnsupportedProtection::Closed {
        let why = Closed(FixedResponseReason::ProtectionUnavailable);
        contributions.closed = contributions.closed.or(Some(why));
    }
    found.into_iter().for_each(|found| reader.report(found));
}

impl Protections<'_> {
    /// A diagnostic for each annotation that passthrough would bypass, or one for the protections of the settings.
    fn bypassed(&self, protection: UnsupportedProtection, consequence: &str) -> Vec<Diagnostic> {
        let named = PROTECTIVE_ANNOTATIONS.into_iter().filter(|name| self.has_protection(name));
        let mut all: Vec<_> = named.map(|name| (self.annotations.prefix, name)).collect();
        let annotation = OWN_PROTECTIVE_ANNOTATIONS
            .into_iter()
            .filter(|name| self.annotations.has(fairway_annotations::OWN_PREFIX, name));
        all.extend(annotation.map(|name| (fairway_annotations::OWN_PREFIX, name)));
        let by_settings = all.is_empty()
            && (self.by_snippet
                || self.contributions.added.is_filtered()
                || [GuardStage::Snippet, GuardStage::Access]
                    .into_iter()
                    .any(|turn| self.contributions.added.has(turn)));
        let found = |(prefix, name): (&str, &str), description: &str| {
            let (severity, consequence) = match protection {
                UnsupportedProtection::Closed => (Severity::Error, consequence),
                UnsupportedProtection::Ignored => (Severity::Warning, IGNORED_CONSEQUENCE),
            };
            let origin = (self.origin)(&format!("metadata.annotations[\"{prefix}/{name}\"]"));
            let problem = format!("clients over TLS that is passed through would bypass {description}");
            Diagnostic::new(severity, "passthrough-protected", origin).because(problem, consequence)
        };
        if by_settings {
            let settings = "the access lists, the authentication or the firewall of the settings ConfigMap";
            return vec![found((self.annotations.prefix, "ssl-passthrough"), settings)];
        }
        all.into_iter().map(|(prefix, name)| found((prefix, name), name)).collect()
    }

    /// Whether it has an annotation of [`PROTECTIVE_ANNOTATIONS`] with a value that restricts access.
    fn has_protection(&self, name: &str) -> bool {
        let Some(value) = self.annotations.value(name) else { return false };
        let verifies = self.annotations.value("auth-tls-verify-client") != Some("off");
        let filters = name != "enable-modsecurity"
            || parse_bool(value) == Some(true) && self.contributions.added.is_filtered();
        !value.is_empty() && value != "0" && (name != "auth-tls-secret" || verifies) && filters
    }
}

/// The stream route of a host, if its oldest Ingress requests one (ingress-nginx `createServers`).
pub(crate) fn stream(
    host: &HostPattern,
    serving: &HostIngresses,
    layout: &Layout,
    builder: &mut Builder<'_>,
) -> Option<StreamRoute> {
    if *host == HostPattern::Any {
        return None;
    }
    let oldest = serving.deciding_ingresses().next()?;
    if !oldest.contributions.host.passthrough {
        builder.diagnostics.extend(ignored(host, serving, oldest));
        return None;
    }
    let is_root = |location: &&Location| location.kind == PathKind::Prefix && &*location.path == "/";
    let is_own = |location: &&Location| {
        location.owner.as_ref().is_some_and(|owner| owner.key.namespace == oldest.key.namespace)
    };
    let root = layout.locations.iter().find(is_root).filter(is_own);
    for location in layout.locations.iter().filter(|it| it.is_path() && !is_root(it)) {
        let found = Diagnostic::new(Severity::Warning, "passthrough-path", location.origin(".path"));
        let problem = format!("TLS of host {host} is passed through to the backend of path /");
        builder.diagnostics.push(found.because(problem, "only requests in the clear reach this path"));
    }
    let options = builder.options();
    let by_others = |root| protected_by_others(serving, layout, oldest, root, options);
    let protected = root.map(by_others).unwrap_or_default();
    let is_closed = oldest.contributions.closed.is_some()
        || protected.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    builder.diagnostics.extend(protected);
    let backends =
        root.filter(|_| !is_closed).map(|root| builder.passthrough_backends(root)).unwrap_or_default();
    if backends.is_empty() && !is_closed {
        let found = Diagnostic::new(Severity::Warning, "passthrough-nowhere", oldest.origin(""));
        let namespace = &oldest.key.namespace;
        let problem = format!(
            "host {host} has no backend of namespace {namespace} for path / that TLS could be passed through to"
        );
        builder.diagnostics.push(found.because(problem, "TLS connections to the host are closed"));
    }
    let key = StreamKey { table: ingress_table(), host: host.clone() };
    Some(StreamRoute { key, origin: oldest.origin(""), backends, policy: StreamPolicy::default() })
}

/// Reports that younger Ingresses, or those of other namespaces than the owner's, do not decide.
fn ignored(host: &HostPattern, serving: &HostIngresses, oldest: &ServedIngress) -> Vec<Diagnostic> {
    let asking = serving.ingresses.iter().filter(|ingress| ingress.contributions.host.passthrough);
    let found = asking.map(|ingress| {
        let problem = format!(
            "Ingress {} decides how TLS of host {host} is treated, and does not ask for ssl-passthrough",
            oldest.key
        );
        Diagnostic::new(Severity::Warning, "passthrough-ignored", ingress.origin(""))
            .because(problem, "TLS of the host ends at Fairway")
    });
    found.collect()
}

/// Protections of other Ingresses that TLS would bypass: those of the Service of `/`, and of the whole host.
/// Ingresses of other namespaces protect their own Services, which this TLS does not reach; they cannot close the
/// host.
fn protected_by_others(
    serving: &HostIngresses,
    layout: &Layout,
    oldest: &Arc<ServedIngress>,
    root: &Location,
    options: &Options,
) -> Vec<Diagnostic> {
    let service = |location: &Location| location.service().map(|service| service.name);
    let reached = service(root);
    let protects_it = |ingress: &ServedIngress| {
        let mut protected = layout
            .locations
            .iter()
            .filter(|it| it.owner.as_ref().is_some_and(|owner| owner.key == ingress.key));
        ingress.contributions.host.clients.is_some()
            || reached.is_some() && protected.any(|location| service(location) == reached)
    };
    let others = serving.ingresses.iter().filter(|it| it.key != oldest.key);
    let others = others.filter(|it| it.key.namespace == oldest.key.namespace && protects_it(it));
    let found = others.flat_map(|ingress| {
        let origin = |field: &str| ingress.origin(field);
        let annotations = Annotations {
            key: &ingress.key,
            ingress: &ingress.object.object,
            prefix: &options.annotations_prefix,
        };
        let protections = Protections {
            annotations,
            contributions: &ingress.contributions,
            by_snippet: false,
            origin: &origin,
        };
        let consequence = "TLS connections to the host are closed";
        let mut found = protections.bypassed(options.hosts.unsupported_protection, consequence);
        if found.is_empty() && ingress.contributions.closed.is_some() {
            let problem =
                "clients over TLS that is passed through would reach a Service of this closed Ingress";
            let origin = ingress.origin("");
            let diagnostic = Diagnostic::new(Severity::Error, "passthrough-protected", origin);
            found.push(diagnostic.because(problem, consequence));
        }
        found
    });
    found.collect()
}
