//! A scripted collector for tests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairway_model::Collector;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;
use tokio::time::Instant;

use crate::counts::Counts;
use crate::failure::{Failure, FailureKind};
use crate::signal::Signal;
use crate::transport::{Connect, Link};

/// The response to a request.
#[derive(Clone)]
pub(crate) enum ScriptedResponse {
    Accept,
    Reject(i64),
    Fail(Failure),
    Hang,
}

/// It is busy, and says when to retry.
pub(crate) fn retry_after(seconds: u64) -> ScriptedResponse {
    ScriptedResponse::Fail(Failure::retryable(Some(Duration::from_secs(seconds)), "busy"))
}

/// It is unreachable.
pub(crate) fn unavailable() -> ScriptedResponse {
    ScriptedResponse::Fail(Failure {
        kind: FailureKind::NoResponse,
        message: "connection refused".to_owned(),
    })
}

/// A request that arrived.
#[derive(Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) at: Instant,
    /// The address it was sent to.
    pub(crate) target: Arc<str>,
    pub(crate) signal: Signal,
    pub(crate) message: Bytes,
}

/// Responds as scripted, then accepts everything; all links share the script.
#[derive(Clone, Default)]
pub(crate) struct ScriptedCollector(Rc<RefCell<ScriptState>>);

#[derive(Default)]
struct ScriptState {
    acts: VecDeque<ScriptedResponse>,
    requests: Vec<ReceivedRequest>,
    links: usize,
}

pub(crate) struct ScriptLink {
    script: ScriptedCollector,
    target: Arc<str>,
}

impl ScriptedCollector {
    pub(crate) fn with_responses(acts: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        let script = Self::default();
        script.0.borrow_mut().acts.extend(acts);
        script
    }

    /// The requests that arrived.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.0.borrow().requests.clone()
    }

    /// How many links were opened.
    pub(crate) fn links(&self) -> usize {
        self.0.borrow().links
    }
}

impl Connect for ScriptedCollector {
    type Link = ScriptLink;

    fn connect(&self, collector: &Collector) -> Result<ScriptLink, String> {
        self.0.borrow_mut().links += 1;
        match &*collector.endpoint {
            "nonsense" => Err("is not a URL".to_owned()),
            to => Ok(ScriptLink { script: self.clone(), target: to.into() }),
        }
    }
}

impl Link for ScriptLink {
    async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, Failure> {
        let act = {
            let mut played = self.script.0.borrow_mut();
            let (at, to) = (Instant::now(), Arc::clone(&self.target));
            played.requests.push(ReceivedRequest { at, target: to, signal, message });
            played.acts.pop_front().unwrap_or(ScriptedResponse::Accept)
        };
        match act {
            ScriptedResponse::Accept => Ok(Bytes::new()),
            ScriptedResponse::Reject(rejected_spans) => {
                let error_message = "no".to_owned();
                let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
                Ok(ExportTraceServiceResponse { partial_success }.encode_to_vec().into())
            }
            ScriptedResponse::Fail(failure) => Err(failure),
            ScriptedResponse::Hang => pending().await,
        }
    }
}

/// The sum of the counters of a signal whose lines start with `beginning`.
pub(crate) fn sum_of_counts(counts: &Counts, beginning: &str, signal: Signal) -> u64 {
    let text = counts.metrics_text();
    let signal = format!("\"{}\"", signal.label());
    let lines = text.lines().filter(|line| line.starts_with(beginning) && line.contains(&signal));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}
