//! The cluster source: watches the Kubernetes API, and sends the changes of objects to the pipeline without delay and
//! without duplicates.
//!
//! [`access`] connects to the API server, and [`selection`] names the kinds and namespaces to watch. A [`watch`]
//! keeps one [`collection`] of objects up to date through lists, events and interruptions. `discovery` finds out
//! which Gateway API kinds the server serves, and `releases` which Gateway API release is installed. [`probe`]
//! reports when the server becomes unreachable and when it is reachable again. [`tracker`] decides what the pipeline
//! receives: only differences, no removals caused by failures, and no Ingress before its Secrets. No module here
//! interprets an object.

pub mod access;
mod backoff;
pub mod collection;
pub mod condition;
mod discovery;
pub(crate) mod fault;
pub(crate) mod object_store;
mod once;
mod pending_changes;
pub mod probe;
mod releases;
mod run;
pub mod selection;
mod stage;
#[cfg(test)]
mod tests;
mod tracker;
mod trimmed;
mod trimmed_gateways;
mod watch;
mod wire;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use fairway_objects::object::Kind;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

pub use kube::Client;

pub use access::{AccessError, Credentials, connect};
pub use condition::{SourceCondition, WatchState, WatchStatus};
pub use once::read_once;
pub use selection::{Namespaces, Selection, ServeGateways};

use condition::SharedCondition;
use fairway_control::input::Inlet;

/// A handle to the running source. The source ends with [`Cluster::stop`] or with the process.
pub struct Cluster {
    client: Client,
    condition: SharedCondition,
    runtime: Handle,
    end: Arc<Notify>,
}

impl Cluster {
    /// Starts the source on a thread of its own. An unreachable API server is not an error: the source retries.
    ///
    /// # Errors
    /// There are no usable credentials, or the thread cannot be started.
    pub fn start(credentials: Credentials, selection: Selection, inlet: Inlet) -> Result<Self, AccessError> {
        let (ready, readiness) = sync_channel(1);
        let (condition, end) = (SharedCondition::new(), Arc::new(Notify::new()));
        let thread =
            SourceThread { credentials, selection, inlet, condition: condition.clone(), end: end.clone() };
        thread::Builder::new().name("fairway-cluster".into()).spawn(move || thread.run(&ready))?;
        let (client, runtime) =
            readiness.recv().unwrap_or_else(|_| Err(AccessError::Client("the thread has ended".into())))?;
        Ok(Self { client, condition, runtime, end })
    }

    /// The state of the watches; cheap enough to read for every readiness request.
    #[must_use]
    pub fn condition(&self) -> SourceCondition {
        self.condition.read()
    }

    /// The client, for components that write to the cluster. It works as long as the source runs.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs a task on the source's thread, for another component that reads the cluster. The task ends with the
    /// source.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// A function that looks up the API version, such as `v1`, in which a Gateway API kind is watched now. It returns
    /// `None` for an unwatched kind.
    pub fn versions(&self) -> impl Fn(Kind) -> Option<&'static str> + Send + Sync + use<> {
        let condition = self.condition.clone();
        move |kind| condition.version(kind)
    }

    /// Ends the source's thread, which then sends no more changes. Does not wait for the end.
    pub fn stop(&self) {
        self.end.notify_one();
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("condition", &self.condition()).finish_non_exhaustive()
    }
}

/// The inputs of the source's thread, which runs until `end` is notified.
struct SourceThread {
    credentials: Credentials,
    selection: Selection,
    inlet: Inlet,
    condition: SharedCondition,
    end: Arc<Notify>,
}

impl SourceThread {
    /// Sends the client and the runtime, or the error, to [`Cluster::start`], which waits for them; then watches.
    fn run(self, ready: &SyncSender<Result<(Client, Handle), AccessError>>) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                _ = ready.send(Err(error.into()));
                return;
            }
        };
        runtime.block_on(async {
            match connect(&self.credentials).await {
                Ok(client) => {
                    _ = ready.send(Ok((client.clone(), Handle::current())));
                    tokio::select! {
                        () = run::run(client, self.selection, self.inlet, self.condition) => {}
                        () = self.end.notified() => {}
                    }
                }
                Err(error) => _ = ready.send(Err(error)),
            }
        });
    }
}
