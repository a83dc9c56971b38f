//! `ssl-passthrough`: TLS connections of a host go to the backend of its `/` as they come. Its other paths and the annotations
//! of its Ingresses act on requests in the clear only.

use fairway_model::{HostPattern, StreamKey, StreamPolicy, StreamRoute};

use crate::ingress::layout::Layout;
use crate::ingress::location::{Location, PathKind};
use crate::ingress::ownership::HostIngresses;
use crate::ingress::rules::Builder;
use crate::ingress::served::ServedIngress;
use crate::listeners::ingress_table;
use fairway_objects::diagnostic::{Diagnostic, Severity};

/// The stream route of a host, where its oldest Ingress asks for one (ingress-nginx `createServers`).
pub(crate) fn stream(
    host: &HostPattern,
    (serving, layout): (&HostIngresses, &Layout),
    builder: &mut Builder<'_>,
) -> Option<StreamRoute> {
    if *host == HostPattern::Any {
        return None;
    }
    let oldest = serving.deciding().next()?;
    if !oldest.contributions.host.passthrough {
        builder.diagnostics.extend(ignored(host, serving, oldest));
        return None;
    }
    let namespace = &oldest.key.namespace;
    let is_root = |location: &&Location| location.kind == PathKind::Prefix && &*location.path == "/";
    let is_own =
        |location: &&Location| location.owner.as_ref().is_some_and(|owner| owner.key.namespace == *namespace);
    let root = layout.locations.iter().find(is_root).filter(is_own);
    let backends = root.map(|root| builder.passed_through(root)).unwrap_or_default();
    if backends.is_empty() {
        let found = Diagnostic::new(Severity::Warning, "passthrough-nowhere", oldest.origin(""));
        let problem = format!(
            "host {host} has no backend of namespace {namespace} for path / that TLS could be passed through to"
        );
        builder.diagnostics.push(found.because(problem, "TLS connections to the host are closed"));
    }
    for location in layout.locations.iter().filter(|it| it.is_path() && !is_root(it)) {
        let found = Diagnostic::new(Severity::Warning, "passthrough-path", location.origin(".path"));
        let problem = format!("TLS of host {host} is passed through to the backend of path /");
        builder.diagnostics.push(found.because(problem, "only requests in the clear reach this path"));
    }
    let key = StreamKey { table: ingress_table(), host: host.clone() };
    Some(StreamRoute { key, origin: oldest.origin(""), backends, policy: StreamPolicy::default() })
}

/// That Ingresses ask for passthrough that do not decide: younger ones, and those of other namespaces than the host's owner.
fn ignored(host: &HostPattern, serving: &HostIngresses, oldest: &ServedIngress) -> Vec<Diagnostic> {
    let asking = serving.ingresses.iter().filter(|ingress| ingress.contributions.host.passthrough);
    let found = asking.map(|ingress| {
        let problem = format!(
            "Ingress {} decides how TLS of host {host} is treated, and does not ask for ssl-passthrough",
            oldest.key
        );
        let found = Diagnostic::new(Severity::Warning, "passthrough-ignored", ingress.origin(""));
        found.because(problem, "TLS of the host ends at Fairway")
    });
    found.collect()
}
