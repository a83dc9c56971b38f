//! Connects the dashboard to its data: texts of `explain`, and numbers of the data plane.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use fairway_control::admin::dashboard::{
    ClientConnections, Connections, CostCount, Dashboard, FaultCount, FetchCosts, FleetReplicas,
    GenerationCost, Inspector, InspectorFuture, KnownReplicas, LiveEndpoint, Numbers, RecordedRequests,
    Replica, TimeBound, UnboundAddress,
};
use fairway_model::{BackendKey, PortProtocol};
use fairway_proxy::metrics::{self, GenerationCounts, Totals};
use fairway_proxy::{
    Attribution, Cause, ClientProtocol, EndpointQuery, EndpointState, OpenConnections, ProxyHandle,
    RecordedQuery, RecordedSamples, RequestOutcome, Unbound,
};
use tokio::sync::Mutex;

use super::feed::Fleet;
use super::gate::Gate;
use crate::explain::ExplainWords;

/// The dashboard of the process.
pub(super) fn dashboard(gate: &Arc<Gate>, fleet: Fleet) -> Dashboard {
    let (requests, generations, costs) =
        (recorded_requests(gate.clone()), gate.generations(), costs(gate.clone()));
    let workers = WorkerInspector { gate: gate.clone(), query_lock: Arc::default(), fleet };
    let gate = gate.clone();
    let fetch_numbers = move || {
        let handle = gate.handle();
        let numbers = async move {
            let handle = handle?;
            Some(numbers(&handle.totals().await))
        };
        Box::pin(numbers) as Pin<Box<dyn Future<Output = Option<Numbers>> + Send>>
    };
    Dashboard::new(Box::new(ExplainWords), Box::new(fetch_numbers), requests, Box::new(workers))
        .with_generations(generations, costs)
}

/// Queries the workers for the costs of each version of the configuration.
fn costs(gate: Arc<Gate>) -> FetchCosts {
    Box::new(move || {
        let handle = gate.handle();
        Box::pin(async move {
            let counts = match handle {
                Some(handle) => handle.generation_counts().await,
                None => Vec::new(),
            };
            counts.iter().map(cost).collect()
        })
    })
}

fn cost(counts: &GenerationCounts) -> GenerationCost {
    let kinds = RequestOutcome::ALL.into_iter().flat_map(|outcome| {
        Attribution::ALL.into_iter().map(move |attribution| CostCount {
            attribution: attribution.label(),
            is_repeated: outcome == RequestOutcome::Repeated,
            is_self_inflicted: attribution.is_self_inflicted() && outcome == RequestOutcome::Failed,
            count: counts.costs.count(attribution, outcome),
        })
    });
    GenerationCost {
        version: counts.version,
        requests: counts.requests,
        costs: kinds.filter(|kind| kind.count > 0).collect(),
    }
}

/// Queries the workers, one query at a time, because each takes time of the workers; and the other replicas.
struct WorkerInspector {
    gate: Arc<Gate>,
    query_lock: Arc<Mutex<()>>,
    fleet: Fleet,
}

impl Inspector for WorkerInspector {
    fn endpoints(&self, backends: Vec<BackendKey>, limit: usize) -> InspectorFuture<Vec<LiveEndpoint>> {
        let (handle, query_lock) = (self.gate.handle(), Arc::clone(&self.query_lock));
        Box::pin(async move {
            let Some(handle) = handle else { return Vec::new() };
            let _guard = query_lock.lock().await;
            let states = handle.endpoint_states(EndpointQuery { backends, max_per_backend: limit }).await;
            states.into_iter().map(|(endpoint, state)| live_endpoint(endpoint, state)).collect()
        })
    }

    fn connections(&self) -> InspectorFuture<Option<Connections>> {
        let (gate, query_lock) = (Arc::clone(&self.gate), Arc::clone(&self.query_lock));
        Box::pin(async move {
            let handle = gate.handle()?;
            let _guard = query_lock.lock().await;
            Some(connections(handle.open_connections().await, gate.unbound()))
        })
    }

    fn replicas(&self) -> InspectorFuture<FleetReplicas> {
        let fleet = self.fleet.clone();
        Box::pin(async move {
            let replicas = match fleet {
                Fleet::Alone => return FleetReplicas::Alone,
                Fleet::Unknown => {
                    return FleetReplicas::Unknown("POD_NAME and POD_NAMESPACE are not set".to_owned());
                }
                Fleet::Of(replicas) => replicas,
            };
            match replicas.others().await {
                Err(reason) => FleetReplicas::Unknown(reason),
                Ok(others) => FleetReplicas::Others(KnownReplicas {
                    own_name: replicas.own_name().to_owned(),
                    replicas: others
                        .replies
                        .into_iter()
                        .map(|(name, served)| Replica { name, served })
                        .collect(),
                    unasked: others.unasked,
                }),
            }
        })
    }
}

fn live_endpoint(
    (backend, address, carrier): (BackendKey, SocketAddr, PortProtocol),
    state: EndpointState,
) -> LiveEndpoint {
    let EndpointState { workers, ejected_by, probed_by, suspected_by, ejected_for, failures, .. } = state;
    let EndpointState { fails_checks, in_flight: under_way, idle, busy, latency, connect_time, .. } = state;
    LiveEndpoint {
        backend,
        address,
        carrier,
        workers,
        ejected_by,
        probed_by,
        suspected_by,
        ejected_for,
        fails_checks,
        failures,
        under_way,
        idle,
        busy,
        latency,
        connect_time,
    }
}

fn connections(open: OpenConnections, unbound: Vec<Unbound>) -> Connections {
    let clients = open.clients.into_iter().map(|((listener, protocol), count)| {
        let speaks = match protocol {
            ClientProtocol::Http1 => "HTTP/1",
            ClientProtocol::Http2 => "HTTP/2",
            ClientProtocol::Http3 => "HTTP/3",
            ClientProtocol::Forwarded => "forwarded",
        };
        ClientConnections { listener, speaks, count }
    });
    let sessions = open.sessions.into_iter().filter(|(_, count)| *count > 0);
    let sessions =
        sessions.map(|(listener, count)| ClientConnections { listener, speaks: "UDP sessions", count });
    let unbound = unbound.into_iter().map(|it| {
        let Unbound { listener, address, reason } = it;
        UnboundAddress { listener, address, reason }
    });
    Connections {
        clients: clients.chain(sessions).collect(),
        greeted: open.greeted,
        orphaned: open.orphaned,
        idle: open.endpoints.idle,
        busy: open.endpoints.busy,
        under_way: open.endpoints.in_flight,
        unbound: unbound.collect(),
    }
}

/// Queries the workers for recorded exchanges, one query at a time, because each takes time of the workers.
fn recorded_requests(gate: Arc<Gate>) -> RecordedRequests {
    let query_lock = Arc::new(Mutex::new(()));
    Arc::new(move |query| {
        let (handle, query_lock) = (gate.handle(), Arc::clone(&query_lock));
        Box::pin(async move {
            let _guard = query_lock.lock().await;
            recorded_json(handle, query).await
        })
    })
}

/// The query of `/requests` that returns a few samples of each rule instead of exchanges.
const SAMPLES_QUERY: &str = "sample=route";

/// The recorded exchanges of the workers, as JSON.
async fn recorded_json(handle: Option<ProxyHandle>, query: Option<String>) -> Result<String, String> {
    let parameters = query.unwrap_or_default();
    if parameters == SAMPLES_QUERY {
        let samples = match handle {
            Some(handle) => handle.recorded_samples().await,
            None => RecordedSamples::default(),
        };
        return serde_json::to_string(&samples).map_err(|error| error.to_string());
    }
    let query = RecordedQuery::from_parameters(form_urlencoded::parse(parameters.as_bytes()))
        .map_err(|problem| problem.to_string())?;
    let exchanges = match handle {
        Some(handle) => handle.recorded_exchanges(query).await,
        None => Vec::new(),
    };
    serde_json::to_string(&serde_json::json!({ "exchanges": exchanges })).map_err(|error| error.to_string())
}

fn numbers(totals: &Totals) -> Numbers {
    let fault = |(fault, count): (&(Cause, &'static str), &u64)| {
        let (cause, reason) = *fault;
        FaultCount { caused_by: cause.label(), reason, count: *count }
    };
    Numbers {
        requests: totals.requests,
        by_class: totals.by_class,
        faults: totals.faults.iter().map(fault).collect(),
        open_connections: totals.open_connections,
        self_inflicted_last_day: totals.self_inflicted_last_day,
        p50: totals.percentile(50).map(time_bound),
        p99: totals.percentile(99).map(time_bound),
    }
}

fn time_bound(bound: metrics::TimeBound) -> TimeBound {
    match bound {
        metrics::TimeBound::AtMost(time) => TimeBound::AtMost(time),
        metrics::TimeBound::Above(time) => TimeBound::Above(time),
    }
}
