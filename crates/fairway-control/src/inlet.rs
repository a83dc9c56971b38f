//! The way into the pipeline, for sources and for others that have something to ask of it. Decides nothing.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use fairway_model::Config;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::resources::Change;
use tokio::sync::oneshot;

use crate::trial::Trial;

/// What a source tells.
#[derive(Debug)]
pub struct Batch {
    /// What differs.
    pub changes: Vec<Change>,
    /// All that the source has to say now; replaces what it said before.
    pub diagnostics: Vec<Diagnostic>,
    /// When the source heard of it.
    pub heard: Instant,
    /// When the first of them was written to the cluster, where its object says so.
    pub written: Option<SystemTime>,
}

/// The way in, for sources.
#[derive(Clone, Debug)]
pub struct Inlet(pub(crate) Sender<Input>);

/// The other end of an [`Inlet`].
#[derive(Debug)]
pub struct Outlet(pub(crate) Receiver<Input>);

/// An inlet with its other end.
#[must_use]
pub fn pipe() -> (Inlet, Outlet) {
    let (sender, receiver) = channel();
    (Inlet(sender), Outlet(receiver))
}

/// All that the pipeline can be sent.
#[derive(Debug)]
pub(crate) enum Input {
    Batch(Batch),
    Change(Change),
    Restore(Box<Config>),
    Lend(oneshot::Sender<Option<Trial>>),
    Stop,
}

impl Inlet {
    /// Tells the pipeline; without effect once it has stopped.
    pub fn send(&self, batch: Batch) {
        _ = self.0.send(Input::Batch(batch));
    }

    /// Tells the pipeline of one change.
    pub fn change(&self, change: Change) {
        _ = self.0.send(Input::Change(change));
    }

    /// Serves this configuration of an earlier process until the source tells something; without effect after that.
    pub fn restore(&self, config: Config) {
        _ = self.0.send(Input::Restore(Box::new(config)));
    }

    /// A copy of the configuration to judge objects with; `None` while none was read. What is done with it is not seen
    /// here.
    pub async fn trial(&self) -> Option<Trial> {
        let (reply, trial) = oneshot::channel();
        self.0.send(Input::Lend(reply)).ok()?;
        trial.await.ok().flatten()
    }
}

impl Outlet {
    /// The next batch; `None` when none came in time.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<Batch> {
        match self.0.recv_timeout(timeout) {
            Ok(Input::Batch(batch)) => Some(batch),
            Ok(Input::Change(change)) => {
                let (changes, diagnostics) = (vec![change], Vec::new());
                Some(Batch { changes, diagnostics, heard: Instant::now(), written: None })
            }
            Ok(Input::Restore(_) | Input::Lend(_) | Input::Stop) | Err(_) => None,
        }
    }
}
