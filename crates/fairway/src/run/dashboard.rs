//! Where the dashboard has its words and numbers from: `explain` and the data plane.

use std::pin::Pin;
use std::sync::Arc;

use fairway_control::admin::dashboard::{Dashboard, FaultCount, Numbers, RecordedRequests, TimeBound};
use fairway_proxy::metrics::{self, Totals};
use fairway_proxy::{Cause, ProxyHandle, RecordedQuery};
use tokio::sync::Mutex;

use super::gate::Gate;
use crate::explain::ExplainWords;

/// The dashboard of the process.
pub(super) fn dashboard(gate: &Arc<Gate>) -> Dashboard {
    let recorded = recorded(gate.clone());
    let gate = gate.clone();
    let count = move || {
        let handle = gate.handle();
        let counted = async move {
            let handle = handle?;
            Some(numbers(&handle.totals().await))
        };
        Box::pin(counted) as Pin<Box<dyn Future<Output = Option<Numbers>> + Send>>
    };
    Dashboard::new(Box::new(ExplainWords), Box::new(count), recorded)
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

/// What the workers remember of their last exchanges, as JSON.
async fn remembered(handle: Option<ProxyHandle>, query: Option<String>) -> Result<String, String> {
    let parameters = query.unwrap_or_default();
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
