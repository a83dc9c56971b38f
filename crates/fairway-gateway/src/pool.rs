//! InferencePools as backends of HTTPRoutes, with their endpoint pickers (Gateway API Inference Extension v1 and its
//! Endpoint Picker Protocol).

use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    BackendKey, Balancing, BodyMode, Extension, GrpcService, MutationRules, ProcessingPhases, Timeouts,
};
use fairway_objects::backend::BackendRef;
use fairway_objects::balance::Balance;
use fairway_objects::inference::{EndpointPickerRef, InferencePoolSpec};
use fairway_objects::kinds::INFERENCE_GROUP;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::backend::{BackendReference, ResolvedReferences, Resolver, RouteProtocol};
use crate::condition::Fault;
use crate::grant::{self, Referrer};

/// Timeout of a picker: it may hold a request until an endpoint has capacity.
const PICKER_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum number of ports of a pool (its CRD).
const MAX_PORTS: usize = 8;

/// A backend with its endpoint picker.
#[derive(Debug)]
pub(crate) struct PickedBackend {
    pub(crate) backend: BackendKey,
    /// `None` if the backend is not a pool or the pool names no picker. An error if the picker is unusable and
    /// requests must not continue without it.
    pub(crate) picker: Result<Option<Arc<Extension>>, Fault>,
}

/// The content of a pool.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Why it cannot be served.
    pub(crate) invalid: Option<Fault>,
    /// The endpoint picker; an error if it is unusable.
    pub(crate) picker: Result<Option<Arc<Extension>>, Fault>,
    /// Whether requests continue if the picker does not respond.
    pub(crate) fails_open: bool,
}

/// Whether a reference names an InferencePool.
pub(crate) fn is_pool(reference: &BackendReference<'_>) -> bool {
    reference.group == Some(INFERENCE_GROUP) && reference.kind == Some(Kind::InferencePool.name())
}

/// The pool of a reference. An invalid reference yields a key for it and the fault. The port of the reference is
/// ignored in favour of the pool's ports.
pub(crate) fn resolve(
    resolver: Resolver<'_>,
    reference: BackendReference<'_>,
    found: &mut ResolvedReferences,
) -> Result<PickedBackend, (BackendKey, Fault)> {
    let route = resolver.route;
    let key = ObjectKey::new(reference.namespace.unwrap_or(&route.key.namespace), reference.name);
    let balance = Balance { balancing: Balancing::PeakEwma, ..Balance::default() };
    let backend = BackendRef::from_pool(key.clone(), &balance);
    let nowhere = |reason, problem: String| Err((backend.key.clone(), Fault::new(reason, problem)));
    if resolver.speaks != RouteProtocol::Http {
        return nowhere("InvalidKind", "an InferencePool is a backend of HTTPRoutes only".to_owned());
    }
    found.add_pool(&key);
    let from = Referrer { kind: route.kind, namespace: &route.key.namespace };
    if !grant::permits(resolver.inputs.resources, from, Kind::InferencePool, &key) {
        let problem = format!("no ReferenceGrant lets it refer to InferencePool {key}");
        return nowhere("RefNotPermitted", problem);
    }
    let Some(pool) = resolver.inputs.resources.gateway.pools.get(&key) else {
        return nowhere("BackendNotFound", format!("InferencePool {key} does not exist"));
    };
    let read = read(&key, &pool.object.spec, resolver, found);
    if let Some(invalid) = read.invalid {
        let problem = format!("InferencePool {key} cannot be served: {}", invalid.message);
        return nowhere("UnsupportedValue", problem);
    }
    let picker = if read.fails_open { Ok(read.picker.unwrap_or_default()) } else { read.picker };
    let key = backend.key.clone();
    if picker.is_ok() {
        found.add_backend(backend);
    }
    Ok(PickedBackend { backend: key, picker })
}

/// Reads a pool and adds its picker's Service to `found`.
pub(crate) fn read(
    key: &ObjectKey,
    spec: &InferencePoolSpec,
    resolver: Resolver<'_>,
    found: &mut ResolvedReferences,
) -> Pool {
    let reference = spec.endpoint_picker_ref.as_ref();
    let mode = reference.and_then(|picker| picker.failure_mode.as_deref());
    let fails_open = mode == Some("FailOpen");
    let picker = reference.map(|reference| picker(key, reference, fails_open, resolver, found)).transpose();
    let invalid = spec_problem(spec, mode).map(|problem| Fault::new("Invalid", problem));
    Pool { invalid, picker, fails_open }
}

/// What the CRD validation would reject: manifests are read without an API server.
fn spec_problem(spec: &InferencePoolSpec, mode: Option<&str>) -> Option<String> {
    let ports = &spec.target_ports;
    let is_port = |number: i32| u16::try_from(number).is_ok_and(|number| number > 0);
    if ports.is_empty() {
        return Some("spec.targetPorts has no port".to_owned());
    }
    if ports.len() > MAX_PORTS {
        return Some(format!("spec.targetPorts has {} ports, and {MAX_PORTS} are the most", ports.len()));
    }
    if let Some(port) = ports.iter().find(|port| !is_port(port.number)) {
        return Some(format!("spec.targetPorts has {}, which is no port", port.number));
    }
    match spec.app_protocol.as_deref() {
        None | Some("" | "http" | "kubernetes.io/h2c") => {}
        Some(other) => return Some(format!("spec.appProtocol \"{other}\" is not known")),
    }
    match mode {
        None | Some("" | "FailOpen" | "FailClose") => None,
        Some(other) => Some(format!("spec.endpointPickerRef.failureMode \"{other}\" is not known")),
    }
}

fn picker(
    pool: &ObjectKey,
    reference: &EndpointPickerRef,
    fails_open: bool,
    resolver: Resolver<'_>,
    found: &mut ResolvedReferences,
) -> Result<Arc<Extension>, Fault> {
    let invalid = |problem: String| Fault::new("InvalidExtensionRef", problem);
    let service = ObjectKey::new(&pool.namespace, &reference.name);
    let services = &resolver.inputs.resources.services;
    // CVE-2021-25740: implementations must not support such Services here.
    let is_external = services.get(&service).is_some_and(|it| it.object.external_name.is_some());
    let pool_object = ObjectRef::new(Kind::InferencePool, pool.clone());
    let asking = Resolver { route: &pool_object, speaks: RouteProtocol::PickerGrpc, ..resolver };
    let port = reference.port.as_ref().map(|port| port.number);
    let to = BackendReference {
        group: reference.group.as_deref(),
        kind: reference.kind.as_deref().filter(|kind| !kind.is_empty()),
        namespace: None,
        name: &reference.name,
        port,
    };
    let resolved = asking.resolve(to, found).map_err(|(_, fault)| invalid(fault.message));
    let backend = match resolved {
        Ok(_) if is_external => {
            let problem = format!("Service {service} is of type ExternalName, and picks no endpoints");
            return Err(invalid(problem));
        }
        resolved => resolved?,
    };
    let phases = ProcessingPhases { headers: true, body: BodyMode::FullDuplexStreamed, trailers: true };
    let host = format!("{}.{}.svc:{}", service.name, service.namespace, port.unwrap_or_default());
    let timeouts = Timeouts { send: PICKER_TIMEOUT, read: PICKER_TIMEOUT, ..Timeouts::default() };
    Ok(Arc::new(Extension {
        name: format!("InferencePool/{pool}").into(),
        service: GrpcService { backend, authority: host.into(), timeouts },
        message_timeout: PICKER_TIMEOUT,
        failure_mode_allow: fails_open,
        request: phases,
        response: phases,
        allow_mode_override: false,
        mutation_rules: MutationRules::default(),
        max_buffered_body: 0,
        attributes: Vec::new(),
        metadata: Vec::new(),
        picks_endpoint: true,
    }))
}
