//! Takes part in the leader election against the API server and publishes the role. Owns the timing of attempts; the rules are in
//! [`super::lease`].

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::lease::{Candidate, LeaseAction, RENEW_DEADLINE, RETRY_INTERVAL};
use super::permission::{RefusedPermissions, RequiredPermission};
use super::shared_state::ReporterState;

/// The retry interval of the last replica during shutdown: another departing replica may be about to release the Lease.
const URGENT_RETRY: Duration = Duration::from_millis(200);

/// Whether this replica writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Another replica may be writing.
    #[default]
    Follower,
    /// No other replica writes.
    Leader,
}

/// How urgently this replica wants to lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LeadershipWish {
    /// Like every replica.
    #[default]
    Steady,
    /// Urgently: it has seconds left, and no other replica is there to lead.
    Urgent,
    /// No more: the Lease is released.
    Ended,
}

/// Takes part in the election.
pub(crate) struct Election {
    leases: Api<Lease>,
    name: String,
    namespace: String,
    identity: String,
    candidate: Candidate,
    refusals: Arc<RefusedPermissions>,
    standing: ReporterState,
    role: watch::Sender<Role>,
    /// Whether the failure to reach the API server was logged.
    is_failing: bool,
}

/// The result of reading and writing the Lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttemptResult {
    Done,
    /// It was changed concurrently.
    Conflict,
}

/// The Lease and this replica's identity.
pub(crate) struct ElectionOptions<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) lease: &'a str,
    pub(crate) identity: &'a str,
}

impl Election {
    /// Does not run yet.
    pub(crate) fn new(
        client: &Client,
        candidacy: &ElectionOptions<'_>,
        refusals: Arc<RefusedPermissions>,
        standing: ReporterState,
    ) -> Self {
        Self {
            leases: Api::namespaced(client.clone(), candidacy.namespace),
            name: candidacy.lease.to_owned(),
            namespace: candidacy.namespace.to_owned(),
            identity: candidacy.identity.to_owned(),
            candidate: Candidate::new(candidacy.identity),
            refusals,
            standing,
            role: watch::Sender::default(),
            is_failing: false,
        }
    }

    /// The current role and its changes.
    pub(crate) fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// Runs until the wish ends, then releases the Lease if this replica holds it.
    pub(crate) async fn run(mut self, mut wish: watch::Receiver<LeadershipWish>) {
        let mut ending = wish.clone();
        loop {
            tokio::select! {
                biased;
                // A dropped sender means the same as an ended wish.
                _ = ending.wait_for(|wish| *wish == LeadershipWish::Ended) => break,
                () = self.attempt() => {}
            }
            self.publish_role();
            let pause = self.pause(*wish.borrow_and_update());
            _ = timeout(pause, wish.changed()).await;
            self.publish_role();
        }
        self.release().await;
    }

    /// Tries once to get or keep the Lease, within the remaining time.
    async fn attempt(&mut self) {
        let now = Instant::now();
        let time_left = self.candidate.leads_until().map(|until| until.saturating_duration_since(now));
        let limit = time_left.filter(|left| !left.is_zero()).unwrap_or(RENEW_DEADLINE);
        let tried = async {
            // A concurrent change is read and retried in the same attempt.
            match self.acquire_or_renew().await? {
                AttemptResult::Conflict => self.acquire_or_renew().await.map(drop),
                AttemptResult::Done => Ok(()),
            }
        };
        match timeout(limit, tried).await {
            Ok(Ok(())) => self.log_recovery(),
            Ok(Err(error)) => self.log_failure(&error.to_string()),
            Err(_) => self.log_failure("the API server does not answer"),
        }
    }

    async fn acquire_or_renew(&mut self) -> Result<AttemptResult, Error> {
        let now = Instant::now();
        let own_record = self.candidate.own_record(now).filter(|own| own.metadata.resource_version.is_some());
        let found = match own_record {
            Some(own) => Some(own.clone()),
            None => self.check_permission("get", self.leases.get_opt(&self.name).await)?,
        };
        let now = Instant::now();
        let post = PostParams::default();
        let (verb, written) = match self.candidate.next_action(found, now, Timestamp::now()) {
            LeaseAction::Wait => return Ok(AttemptResult::Done),
            LeaseAction::Create(mut lease) => {
                lease.metadata.name = Some(self.name.clone());
                ("create", self.leases.create(&post, &lease).await)
            }
            LeaseAction::Replace(lease) => ("update", self.leases.replace(&self.name, &post, &lease).await),
        };
        match self.check_permission(verb, written) {
            Ok(lease) => self.candidate.record_written(lease, now),
            // Another replica was faster, or an earlier write of this one arrived after all.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {
                self.candidate.forget_observed();
                return Ok(AttemptResult::Conflict);
            }
            Err(error) => {
                self.candidate.forget_observed();
                return Err(error);
            }
        }
        Ok(AttemptResult::Done)
    }

    fn check_permission<T>(&self, verb: &'static str, response: Result<T, Error>) -> Result<T, Error> {
        let permit = RequiredPermission {
            verb,
            resource: "leases.coordination.k8s.io".into(),
            namespace: self.namespace.as_str().into(),
            lost: "no replica can become the leader, and status and Events are not written",
        };
        self.refusals.check(permit, response)
    }

    /// Publishes the role if it changed.
    fn publish_role(&mut self) {
        let leads = self.candidate.leads(Instant::now());
        if !leads {
            self.candidate.stop_leading();
        }
        let role = if leads { Role::Leader } else { Role::Follower };
        let changed = self.role.send_if_modified(|now| std::mem::replace(now, role) != role);
        if changed {
            self.standing.set_leader(leads);
            let (lease, holder) = (&self.name, self.candidate.holder());
            match role {
                Role::Leader => {
                    tracing::info!(lease, "elected as leader: this replica writes status and Events");
                }
                Role::Follower => tracing::info!(lease, holder, "no longer the leader"),
            }
        }
    }

    /// The pause after an attempt. Followers add jitter, so that they do not all send at once (as in client-go); a leader never
    /// sleeps past the moment it must stop leading.
    fn pause(&self, wish: LeadershipWish) -> Duration {
        match self.candidate.leads_until() {
            Some(until) => RETRY_INTERVAL.min(until.saturating_duration_since(Instant::now())),
            None if wish == LeadershipWish::Urgent => URGENT_RETRY,
            None => RETRY_INTERVAL.mul_f64(1.0 + 1.2 * fastrand::f64()),
        }
    }

    async fn release(&mut self) {
        let Some(mut lease) = self.candidate.release(Instant::now(), Timestamp::now()) else { return };
        self.publish_role();
        let mut released = self.replace(&lease).await;
        if matches!(&released, Err(Error::Api(status)) if status.is_conflict()) {
            // A renewal whose response was lost may have been stored.
            released = match self.leases.get(&self.name).await {
                Ok(found) if holder_of(&found) == Some(&self.identity) => {
                    lease.metadata = found.metadata;
                    self.replace(&lease).await
                }
                other => other,
            };
        }
        match released {
            Ok(_) => tracing::info!(lease = %self.name, "released"),
            Err(error) => tracing::warn!(
                lease = %self.name, %error,
                "the Lease is not released; another replica takes it when it has run out"
            ),
        }
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, Error> {
        let replaced = self.leases.replace(&self.name, &PostParams::default(), lease).await;
        self.check_permission("update", replaced)
    }

    fn log_failure(&mut self, error: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                lease = %self.name, error,
                "the Lease cannot be read or written; retrying; traffic is not affected"
            );
        }
    }

    fn log_recovery(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(lease = %self.name, "the Lease can be read and written again");
        }
    }
}

fn holder_of(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref()
}
