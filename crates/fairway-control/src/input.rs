//! The input side of the pipeline, for sources and other components.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use fairway_model::Config;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::resources::Change;
use tokio::sync::oneshot;

use crate::dry_run::Trial;

/// A report of a source.
#[derive(Debug)]
pub struct ChangeBatch {
    /// The changed objects.
    pub changes: Vec<Change>,
    /// All current diagnostics of the source; they replace earlier ones.
    pub diagnostics: Vec<Diagnostic>,
    /// When the source received the first change.
    pub received_at: Instant,
    /// When the first change was written to the cluster, if the object says so.
    pub written: Option<SystemTime>,
}

/// Sends to the pipeline.
#[derive(Clone, Debug)]
pub struct Inlet(pub(crate) Sender<PipelineInput>);

/// The receiving end of an [`Inlet`].
#[derive(Debug)]
pub struct Outlet(pub(crate) Receiver<PipelineInput>);

/// An inlet and its outlet.
#[must_use]
pub fn pipe() -> (Inlet, Outlet) {
    let (sender, receiver) = channel();
    (Inlet(sender), Outlet(receiver))
}

/// An input of the pipeline.
#[derive(Debug)]
pub(crate) enum PipelineInput {
    Batch(ChangeBatch),
    Change(Change),
    Restore(Box<Config>),
    Lend(oneshot::Sender<Option<Trial>>),
    Stop,
}

impl Inlet {
    /// Sends a batch; no effect once the pipeline has stopped.
    pub fn send(&self, batch: ChangeBatch) {
        _ = self.0.send(PipelineInput::Batch(batch));
    }

    /// Sends a single change.
    pub fn send_change(&self, change: Change) {
        _ = self.0.send(PipelineInput::Change(change));
    }

    /// Serves this configuration of an earlier process until the source reports; no effect after that.
    pub fn restore(&self, config: Config) {
        _ = self.0.send(PipelineInput::Restore(Box::new(config)));
    }

    /// A copy of the configuration for reviewing objects; `None` before the first batch. The pipeline never sees what is done
    /// with it.
    pub async fn trial(&self) -> Option<Trial> {
        let (reply, trial) = oneshot::channel();
        self.0.send(PipelineInput::Lend(reply)).ok()?;
        trial.await.ok().flatten()
    }
}

impl Outlet {
    /// The next batch; `None` after the timeout.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<ChangeBatch> {
        match self.0.recv_timeout(timeout) {
            Ok(PipelineInput::Batch(batch)) => Some(batch),
            Ok(PipelineInput::Change(change)) => {
                let (changes, diagnostics) = (vec![change], Vec::new());
                Some(ChangeBatch { changes, diagnostics, received_at: Instant::now(), written: None })
            }
            Ok(PipelineInput::Restore(_) | PipelineInput::Lend(_) | PipelineInput::Stop) | Err(_) => None,
        }
    }
}
