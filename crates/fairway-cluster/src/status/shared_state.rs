//! The status thread's state for other threads: metrics and diagnostics.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fairway_control::exposition::{escaped, single};
use fairway_objects::diagnostic::Diagnostic;
use tokio::sync::watch;

/// Counters and current state. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ReporterState(Arc<SharedState>);

#[derive(Debug, Default)]
struct SharedState {
    leads: AtomicBool,
    status_written: AtomicU64,
    status_failed: AtomicU64,
    events: AtomicU64,
    gateways_placed: AtomicBool,
    ticket_keys_known: AtomicBool,
    pod_is_deleted: AtomicBool,
    contests: Mutex<BTreeMap<StatusKind, Vec<Diagnostic>>>,
    /// The problem with the Secret of ticket keys.
    ticket_keys: Mutex<Option<Diagnostic>>,
    /// Counts changes of both.
    contested: watch::Sender<u64>,
}

/// Whose status is written; each has its own writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusKind {
    /// Ingresses.
    Ingresses,
    /// Objects of the Gateway API.
    GatewayApi,
}

impl ReporterState {
    /// Whether this replica writes status and Events.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0.leads.load(Ordering::Relaxed)
    }

    /// Problems that are not in the configuration: conflicts over status, and the Secret of ticket keys.
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
            ("leader", "gauge", "1 when this replica writes status and Events.", u64::from(self.is_leader())),
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

    /// Whether this replica leads, under ingress-nginx's metric name, for replicas that elect by `lease`. `identity` holds the
    /// labels of all its metrics.
    #[must_use]
    pub fn election_text(&self, lease: &str, identity: &str) -> String {
        let name = "nginx_ingress_controller_leader_election_status";
        let labels = format!("{identity},name=\"{}\"", escaped(lease));
        let mut out = String::new();
        let help = "1 when this replica leads; the name is that of the Lease.";
        single(&mut out, name, "gauge", help, &labels, u64::from(self.is_leader()));
        out
    }

    /// Whether every Gateway port of this replica was bound once or has failed; also true if placements are not managed.
    #[must_use]
    pub fn has_placed_gateways(&self) -> bool {
        self.0.gateways_placed.load(Ordering::Acquire)
    }

    /// Whether the shared ticket keys were read once or cannot be; also true if none are shared. Before that, state that this
    /// replica encrypts for a login cannot be decrypted by others.
    #[must_use]
    pub fn knows_ticket_keys(&self) -> bool {
        self.0.ticket_keys_known.load(Ordering::Acquire)
    }

    /// Whether the pod is being deleted, as far as the API has reported since this replica was told to stop.
    #[must_use]
    pub fn pod_is_deleted(&self) -> bool {
        self.0.pod_is_deleted.load(Ordering::Acquire)
    }

    pub(crate) fn set_pod_deleted(&self) {
        self.0.pod_is_deleted.store(true, Ordering::Release);
    }

    pub(crate) fn set_ticket_keys_known(&self) {
        self.0.ticket_keys_known.store(true, Ordering::Release);
    }

    pub(crate) fn set_gateways_placed(&self) {
        self.0.gateways_placed.store(true, Ordering::Release);
    }

    pub(crate) fn set_leader(&self, leads: bool) {
        self.0.leads.store(leads, Ordering::Relaxed);
    }

    pub(crate) fn count_status_written(&self) {
        self.0.status_written.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_status_failed(&self) {
        self.0.status_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_event_written(&self) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes with the conflicts.
    pub(crate) fn conflict_changes(&self) -> watch::Receiver<u64> {
        self.0.contested.subscribe()
    }

    /// Sets the problem with the Secret of ticket keys, and logs it if it is new.
    pub(crate) fn set_ticket_key_problem(&self, now: Option<Diagnostic>) {
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

    /// Sets the current conflicts; logs new ones, but only the first per other writer.
    pub(crate) fn set_conflicts(&self, kind: StatusKind, now: Vec<Diagnostic>) {
        let mut contests = self.0.contests.lock().unwrap_or_else(PoisonError::into_inner);
        let before = contests.entry(kind).or_default();
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
