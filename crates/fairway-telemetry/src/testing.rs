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

/// What it does with a request.
#[derive(Clone)]
pub(crate) enum Act {
    Take,
    Reject(i64),
    Fail(Failure),
    Hang,
}

/// It is busy, and names when it may be asked again.
pub(crate) fn busy(seconds: u64) -> Act {
    Act::Fail(Failure::retryable(Some(Duration::from_secs(seconds)), "busy"))
}

/// It is not there.
pub(crate) fn away() -> Act {
    Act::Fail(Failure { kind: FailureKind::NoResponse, message: "connection refused".to_owned() })
}

/// A request that came.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    /// The address that it was sent to.
    pub(crate) to: Arc<str>,
    pub(crate) signal: Signal,
    pub(crate) message: Bytes,
}

/// Acts as it is told, then takes everything; the same for all links to it.
#[derive(Clone, Default)]
pub(crate) struct Script(Rc<RefCell<Played>>);

#[derive(Default)]
struct Played {
    acts: VecDeque<Act>,
    requests: Vec<Request>,
    links: usize,
}

pub(crate) struct ScriptLink {
    script: Script,
    to: Arc<str>,
}

impl Script {
    pub(crate) fn playing(acts: impl IntoIterator<Item = Act>) -> Self {
        let script = Self::default();
        script.0.borrow_mut().acts.extend(acts);
        script
    }

    /// The requests that came.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.borrow().requests.clone()
    }

    /// How many links were made.
    pub(crate) fn links(&self) -> usize {
        self.0.borrow().links
    }
}

impl Connect for Script {
    type Link = ScriptLink;

    fn connect(&self, collector: &Collector) -> Result<ScriptLink, String> {
        self.0.borrow_mut().links += 1;
        match &*collector.endpoint {
            "nonsense" => Err("is not a URL".to_owned()),
            to => Ok(ScriptLink { script: self.clone(), to: to.into() }),
        }
    }
}

impl Link for ScriptLink {
    async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, Failure> {
        let act = {
            let mut played = self.script.0.borrow_mut();
            let (at, to) = (Instant::now(), Arc::clone(&self.to));
            played.requests.push(Request { at, to, signal, message });
            played.acts.pop_front().unwrap_or(Act::Take)
        };
        match act {
            Act::Take => Ok(Bytes::new()),
            Act::Reject(rejected_spans) => {
                let error_message = "no".to_owned();
                let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
                Ok(ExportTraceServiceResponse { partial_success }.encode_to_vec().into())
            }
            Act::Fail(failure) => Err(failure),
            Act::Hang => pending().await,
        }
    }
}

/// The sum of the counts of a signal whose lines begin so.
pub(crate) fn total(counts: &Counts, beginning: &str, signal: Signal) -> u64 {
    let text = counts.text();
    let signal = format!("\"{}\"", signal.label());
    let lines = text.lines().filter(|line| line.starts_with(beginning) && line.contains(&signal));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}
