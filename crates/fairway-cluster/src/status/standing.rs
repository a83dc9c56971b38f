//! What the status thread shows of itself to other threads: metrics and the diagnostics that it adds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fairway_control::exposition::{escaped, single};
use fairway_objects::diagnostic::Diagnostic;
use tokio::sync::watch;

/// Counts and the current state. A clone shows the same.
#[derive(Clone, Debug, Default)]
pub struct Standing(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    leads: AtomicBool,
    status_written: AtomicU64,
    status_failed: AtomicU64,
    events: AtomicU64,
    gateways_placed: AtomicBool,
    ticket_keys_known: AtomicBool,
    pod_is_deleted: AtomicBool,
    contests: Mutex<BTreeMap<StatusOf, Vec<Diagnostic>>>,
    /// What is wrong with the Secret of ticket keys.
    ticket_keys: Mutex<Option<Diagnostic>>,
    /// Counts the changes of both.
    contested: watch::Sender<u64>,
}

/// Whose status is written: each has a writer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusOf {
    /// Ingresses.
    Ingresses,
    /// Objects of the Gateway API.
    GatewayApi,
}

impl Standing {
    /// Whether this replica writes status and Events.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.0.leads.load(Ordering::Relaxed)
    }

    /// What is wrong beyond the configuration: status that another writer fights for, and the Secret of ticket keys.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let contests = self.0.contests.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket_keys = self.0.ticket_keys.lock().unwrap_or_else(PoisonError::into_inner);
        contests.values().flatten().chain(&*ticket_keys).cloned().collect()
    }

    /// The metrics of status, Lease and Events in the Prometheus text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let contests = self.0.contests.lock().unwrap_or_else(PoisonError::into_inner);
        let contested = contests.values().map(Vec::len).sum::<usize>() as u64;
        let mut out = String::new();
        for (name, kind, help, value) in [
            ("leader", "gauge", "1 when this replica writes status and Events.", u64::from(self.leads())),
            ("status_contested", "gauge", "Objects whose status another writer fights for.", contested),
            ("status_writes_total", "counter", "Statuses of objects written.", count(&self.0.status_written)),
            ("status_failures_total", "counter", "Failed tries to write one.", count(&self.0.status_failed)),
            ("events_total", "counter", "Kubernetes Events written.", count(&self.0.events)),
        ] {
            let written = writeln!(
                out,
                "# HELP fairway_{name} {help}\n# TYPE fairway_{name} {kind}\nfairway_{name} {value}"
            );
            written.expect("writing to a String cannot fail");
        }
        out
    }

    /// Whether this replica leads, by the name of ingress-nginx, where replicas elect by `lease`. `identity` are the
    /// labels that all of its metrics have.
    #[must_use]
    pub fn election_text(&self, lease: &str, identity: &str) -> String {
        let name = "nginx_ingress_controller_leader_election_status";
        let labels = format!("{identity},name=\"{}\"", escaped(lease));
        let mut out = String::new();
        let help = "1 when this replica leads; the name is that of the Lease.";
        single(&mut out, name, "gauge", help, &labels, u64::from(self.leads()));
        out
    }

    /// Whether every port that Gateways have in this replica was bound once, or cannot be; also where nobody looks after that.
    #[must_use]
    pub fn has_placed_gateways(&self) -> bool {
        self.0.gateways_placed.load(Ordering::Acquire)
    }

    /// Whether the ticket keys that replicas share were read once, or cannot be; also where none are shared. Before, what this replica
    /// encrypts for a login would open nowhere else.
    #[must_use]
    pub fn knows_ticket_keys(&self) -> bool {
        self.0.ticket_keys_known.load(Ordering::Acquire)
    }

    /// Whether the pod is deleted, as far as the API has said so since this replica was told to stop.
    #[must_use]
    pub fn pod_is_deleted(&self) -> bool {
        self.0.pod_is_deleted.load(Ordering::Acquire)
    }

    pub(crate) fn pod_deleted(&self) {
        self.0.pod_is_deleted.store(true, Ordering::Release);
    }

    pub(crate) fn ticket_keys_known(&self) {
        self.0.ticket_keys_known.store(true, Ordering::Release);
    }

    pub(crate) fn gateways_placed(&self) {
        self.0.gateways_placed.store(true, Ordering::Release);
    }

    pub(crate) fn lead(&self, leads: bool) {
        self.0.leads.store(leads, Ordering::Relaxed);
    }

    pub(crate) fn status_written(&self) {
        self.0.status_written.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn status_failed(&self) {
        self.0.status_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn event_written(&self) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes with the fights.
    pub(crate) fn contested(&self) -> watch::Receiver<u64> {
        self.0.contested.subscribe()
    }

    /// Takes what is wrong with the Secret of ticket keys, and says what is new of it.
    pub(crate) fn ticket_keys(&self, now: Option<Diagnostic>) {
        let mut before = self.0.ticket_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if *before == now {
            return;
        }
        if let Some(it) = &now {
            tracing::warn!(code = it.code, origin = %it.origin, "{}; {}", it.problem, it.consequence);
        }
        *before = now;
        self.0.contested.send_modify(|count| *count += 1);
    }

    /// Takes the fights as they are now; says each new one, but of one other writer only the first.
    pub(crate) fn contests(&self, of: StatusOf, now: Vec<Diagnostic>) {
        let mut contests = self.0.contests.lock().unwrap_or_else(PoisonError::into_inner);
        let before = contests.entry(of).or_default();
        if *before == now {
            return;
        }
        for (at, it) in now.iter().enumerate() {
            if !before.iter().chain(&now[..at]).any(|said| said.problem == it.problem) {
                tracing::warn!(code = it.code, origin = %it.origin, "{}; {}", it.problem, it.consequence);
            }
        }
        *before = now;
        self.0.contested.send_modify(|count| *count += 1);
    }
}
