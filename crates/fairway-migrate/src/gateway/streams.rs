//! Converts TLS passthrough to TLSRoutes.

use fairway_model::StreamRoute;
use fairway_objects::gateway_api::{BackendRef, ParentReference, StreamRouteRule, TlsRoute, TlsRouteSpec};
use fairway_objects::object::ObjectKey;

use crate::gateway::backends::Backends;
use crate::gateway::naming::{self, Names};
use crate::gateway::object::{self, WrittenObject};

/// The TLSRoute of a host and its Ingress; `None` if it has no Service.
pub(crate) fn route(
    stream: &StreamRoute,
    parent: ParentReference,
    backends: &Backends<'_>,
    names: &mut Names,
) -> Option<(ObjectKey, String, WrittenObject)> {
    let ingress = ObjectKey { namespace: stream.origin.namespace.clone(), name: stream.origin.name.clone() };
    let reference = |backend: &fairway_model::WeightedBackend| {
        let to = backends.destination(backends.input.backend(&backend.backend)?).ok()?;
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
    let name = names.claim_free_name(&ingress.namespace, &format!("{}-tls", ingress.name));
    let key = ObjectKey { namespace: ingress.namespace.clone(), name: name.into() };
    Some((ingress, format!("TLSRoute {key}"), object::write_object::<TlsRoute>(&key, &spec, Vec::new())))
}
