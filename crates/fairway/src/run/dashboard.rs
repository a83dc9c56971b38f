//! Where the dashboard has its words and numbers from: `explain` and the data plane.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use fairway_control::admin::dashboard::{
    Answering, AskCosts, ClientConnections, Connections, CostCount, Dashboard, FaultCount, GenerationCost,
    Inspector, LiveEndpoint, Numbers, Others, RecordedRequests, Replica, Replicas, TimeBound, UnboundAddress,
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
    let (recorded, generations, costs) = (recorded(gate.clone()), gate.generations(), costs(gate.clone()));
    let workers = Workers { gate: gate.clone(), turn: Arc::default(), fleet };
    let gate = gate.clone();
    let count = move || {
        let handle = gate.handle();
        let counted = async move {
            let handle = handle?;
            Some(numbers(&handle.totals().await))
        };
        Box::pin(counted) as Pin<Box<dyn Future<Output = Option<Numbers>> + Send>>
    };
    Dashboard::new(Box::new(ExplainWords), Box::new(count), recorded, Box::new(workers))
        .with_generations(generations, costs)
}

/// Asks the workers what each version of the configuration cost.
fn costs(gate: Arc<Gate>) -> AskCosts {
    Box::new(move || {
        let handle = gate.handle();
        Box::pin(async move {
            let counts = match handle {
                Some(handle) => handle.generations().await,
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

/// Asks the workers and the fleet, one question at a time: each takes a worker a moment.
struct Workers {
    gate: Arc<Gate>,
    turn: Arc<Mutex<()>>,
    fleet: Fleet,
}

impl Inspector for Workers {
    fn endpoints(&self, backends: Vec<BackendKey>, most: usize) -> Answering<Vec<LiveEndpoint>> {
        let (handle, turn) = (self.gate.handle(), Arc::clone(&self.turn));
        Box::pin(async move {
            let Some(handle) = handle else { return Vec::new() };
            let _turn = turn.lock().await;
            let states = handle.endpoints(EndpointQuery { backends, most }).await;
            states.into_iter().map(|(endpoint, state)| live(endpoint, state)).collect()
        })
    }

    fn connections(&self) -> Answering<Option<Connections>> {
        let (gate, turn) = (Arc::clone(&self.gate), Arc::clone(&self.turn));
        Box::pin(async move {
            let handle = gate.handle()?;
            let _turn = turn.lock().await;
            Some(connections(handle.open_connections().await, gate.unbound()))
        })
    }

    fn replicas(&self) -> Answering<Replicas> {
        let fleet = self.fleet.clone();
        Box::pin(async move {
            let replicas = match fleet {
                Fleet::Alone => return Replicas::Alone,
                Fleet::Unknown => {
                    return Replicas::Unknown("POD_NAME and POD_NAMESPACE are not set".to_owned());
                }
                Fleet::Of(replicas) => replicas,
            };
            match replicas.others().await {
                Err(reason) => Replicas::Unknown(reason),
                Ok(others) => Replicas::Others(Others {
                    own: replicas.own().to_owned(),
                    replicas: others
                        .asked
                        .into_iter()
                        .map(|(name, served)| Replica { name, served })
                        .collect(),
                    unasked: others.unasked,
                }),
            }
        })
    }
}

fn live(
    (backend, address, carrier): (BackendKey, SocketAddr, PortProtocol),
    of: EndpointState,
) -> LiveEndpoint {
    let EndpointState { workers, ejected_by, probed_by, suspected_by, ejected_for, failures, .. } = of;
    let EndpointState { fails_checks, under_way, idle, busy, latency, connect_time, .. } = of;
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
        under_way: open.endpoints.under_way,
        unbound: unbound.collect(),
    }
}

/// Asks the workers what they remember of their last exchanges, one question at a time: each takes a worker a moment.
fn recorded(gate: Arc<Gate>) -> RecordedRequests {
    let turn = Arc::new(Mutex::new(()));
    Arc::new(move |query| {
        let (handle, turn) = (gate.handle(), Arc::clone(&turn));
        Box::pin(async move {
            let _turn = turn.lock().await;
            remembered(handle, query).await
        })
    })
}

/// The query of `/requests` that asks for a few requests of each rule instead of exchanges.
const SAMPLES: &str = "sample=route";

/// What the workers remember of their last exchanges, as JSON.
async fn remembered(handle: Option<ProxyHandle>, query: Option<String>) -> Result<String, String> {
    let parameters = query.unwrap_or_default();
    if parameters == SAMPLES {
        let samples = match handle {
            Some(handle) => handle.sampled().await,
            None => RecordedSamples::default(),
        };
        return serde_json::to_string(&samples).map_err(|error| error.to_string());
    }
    let query = RecordedQuery::read(form_urlencoded::parse(parameters.as_bytes()))
        .map_err(|problem| problem.to_string())?;
    let exchanges = match handle {
        Some(handle) => handle.recorded(query).await,
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
        p50: totals.percentile(50).map(bound),
        p99: totals.percentile(99).map(bound),
    }
}

fn bound(of: metrics::TimeBound) -> TimeBound {
    match of {
        metrics::TimeBound::AtMost(time) => TimeBound::AtMost(time),
        metrics::TimeBound::Above(time) => TimeBound::Above(time),
    }
}
