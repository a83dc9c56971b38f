//! TLS that passes through as TLSRoutes.

use fairway_model::StreamRoute;
use fairway_objects::gateway_api::{BackendRef, ParentReference, StreamRouteRule, TlsRoute, TlsRouteSpec};
use fairway_objects::object::ObjectKey;

use crate::gateway::backends::Backends;
use crate::gateway::naming::{self, Names};
use crate::gateway::object::{self, Written};

/// The TLSRoute of a host, with the Ingress that it is of; `None` where it leads nowhere.
pub(crate) fn route(
    stream: &StreamRoute,
    parent: ParentReference,
    backends: &Backends<'_>,
    names: &mut Names,
) -> Option<(ObjectKey, String, Written)> {
    let ingress = ObjectKey { namespace: stream.origin.namespace.clone(), name: stream.origin.name.clone() };
    let reference = |of: &fairway_model::WeightedBackend| {
        let to = backends.destination(backends.input.backend(&of.backend)?).ok()?;
        let (name, port) = (to.service.name.to_string(), Some(to.port));
        Some(BackendRef { name, port, ..BackendRef::default() })
    };
    let backend_refs: Vec<_> = stream.backends.iter().filter_map(reference).collect();
    if backend_refs.is_empty() {
        return None;
    }
    let spec = TlsRouteSpec {
        hostnames: naming::hostname(&stream.key.host).into_iter().collect(),
        parent_refs: vec![parent],
        rules: vec![StreamRouteRule { backend_refs, name: None }],
        ..TlsRouteSpec::default()
    };
    let name = names.free(&ingress.namespace, &format!("{}-tls", ingress.name));
    let key = ObjectKey { namespace: ingress.namespace.clone(), name: name.into() };
    Some((ingress, format!("TLSRoute {key}"), object::written::<TlsRoute>(&key, &spec, Vec::new())))
}
