//! The cluster source: watches of the Kubernetes API -> changes of objects, at once and each once.
//!
//! [`access`] finds the way to the API server, [`selection`] says what is wanted there. A [`watch`] follows one
//! [`collection`] of objects through lists, events and breaks; `discovery` says which kinds of the Gateway API there are, and
//! `releases` of which releases;
//! [`probe`] notices that the server is gone and is back.
//! [`tracker`] decides what of all this the pipeline receives: only what differs, nothing removed by a failure, and an
//! Ingress never before its Secrets. Never judges what an object means.

pub mod access;
mod backoff;
pub mod collection;
pub mod condition;
mod discovery;
pub(crate) mod fault;
pub(crate) mod follow;
mod held;
mod once;
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
pub use condition::{Condition, Store, StoreState};
pub use once::read_once;
pub use selection::{Namespaces, Selection, ServeGateways};

use condition::SharedCondition;
use fairway_control::inlet::Inlet;

/// The running source. It ends with [`Cluster::stop`], or with the process.
pub struct Cluster {
    client: Client,
    condition: SharedCondition,
    runtime: Handle,
    end: Arc<Notify>,
}

impl Cluster {
    /// Starts the thread. An API server that does not answer is no error: it is asked until it does.
    ///
    /// # Errors
    /// No usable credentials, or no thread.
    pub fn start(credentials: Credentials, selection: Selection, inlet: Inlet) -> Result<Self, AccessError> {
        let (ready, started) = sync_channel(1);
        let (condition, end) = (SharedCondition::new(), Arc::new(Notify::new()));
        let thread = Thread { credentials, selection, inlet, condition: condition.clone(), end: end.clone() };
        thread::Builder::new().name("fairway-cluster".into()).spawn(move || thread.run(&ready))?;
        let (client, runtime) =
            started.recv().unwrap_or_else(|_| Err(AccessError::Client("its thread ended".into())))?;
        Ok(Self { client, condition, runtime, end })
    }

    /// How it is now; cheap enough for every request of a probe.
    #[must_use]
    pub fn condition(&self) -> Condition {
        self.condition.read()
    }

    /// The client, for others who write to the cluster. It works as long as the source runs.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs what reads of the cluster besides, on the thread of the source and as long as that.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// In which version kinds of the Gateway API are watched, now and later; `None` for one that is not.
    pub fn versions(&self) -> impl Fn(Kind) -> Option<&'static str> + Send + Sync + use<> {
        let condition = self.condition.clone();
        move |kind| condition.version(kind)
    }

    /// Ends the thread. Nothing is passed on after it.
    pub fn stop(&self) {
        self.end.notify_one();
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("condition", &self.condition()).finish_non_exhaustive()
    }
}

/// What the thread owns.
struct Thread {
    credentials: Credentials,
    selection: Selection,
    inlet: Inlet,
    condition: SharedCondition,
    end: Arc<Notify>,
}

impl Thread {
    fn run(self, ready: &SyncSender<Result<(Client, Handle), AccessError>>) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                // The one who started this waits for it.
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
