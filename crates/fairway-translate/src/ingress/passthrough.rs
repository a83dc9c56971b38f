//! `ssl-passthrough`: TLS connections of a host go to the backend of its `/` as they come. Its other paths and the annotations
//! of its Ingresses act on requests in the clear only.

use fairway_model::{HostPattern, StreamKey, StreamPolicy, StreamRoute};

use crate::ingress::layout::Layout;
use crate::ingress::location::{Location, PathKind};
use crate::ingress::ownership::HostIngresses;
use crate::ingress::rules::Builder;
use crate::listeners::ingress_table;
use fairway_objects::diagnostic::{Diagnostic, Severity};

/// The stream route of a host, where an Ingress that decides about it asks for one.
pub(crate) fn stream(
    host: &HostPattern,
    (serving, layout): (&HostIngresses, &Layout),
    builder: &mut Builder<'_>,
) -> Option<StreamRoute> {
    if *host == HostPattern::Any {
        return None;
    }
    let asking = serving.deciding().find(|ingress| ingress.contributions.host.passthrough)?;
    let is_root = |location: &&Location| location.kind == PathKind::Prefix && &*location.path == "/";
    let root = layout.locations.iter().find(is_root);
    let backends = root.map(|root| builder.passed_through(root)).unwrap_or_default();
    if backends.is_empty() {
        let found = Diagnostic::new(Severity::Warning, "passthrough-nowhere", asking.origin(""));
        let problem = format!("host {host} has no backend for path / that TLS could be passed through to");
        builder.diagnostics.push(found.because(problem, "TLS connections to the host are closed"));
    }
    for location in layout.locations.iter().filter(|it| it.is_path() && !is_root(it)) {
        let found = Diagnostic::new(Severity::Warning, "passthrough-path", location.origin(".path"));
        let problem = format!("TLS of host {host} is passed through to the backend of path /");
        builder.diagnostics.push(found.because(problem, "only requests in the clear reach this path"));
    }
    let key = StreamKey { table: ingress_table(), host: host.clone() };
    Some(StreamRoute { key, origin: asking.origin(""), backends, policy: StreamPolicy::default() })
}
