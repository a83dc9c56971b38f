//! Runs for the Lease against the API server, and tells who leads. Owns the timing of attempts; the rules are
//! [`super::lease`]'s.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::lease::{Candidate, RENEW_DEADLINE, RETRY, Step};
use super::permission::{Permit, Refusals};
use super::standing::Standing;

/// The pause between attempts of the last replica while it ends: another that goes, too, may be about to release.
const URGENT_RETRY: Duration = Duration::from_millis(200);

/// Whether this replica writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Another may be writing.
    #[default]
    Follower,
    /// Nobody else writes.
    Leader,
}

/// How much this replica wants to lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Like every replica.
    #[default]
    Steady,
    /// Soon: it has only seconds left, and nobody else is there to lead.
    Urgent,
    /// No more: the Lease is released.
    Ended,
}

/// Runs for the Lease.
pub(crate) struct Election {
    leases: Api<Lease>,
    name: String,
    namespace: String,
    identity: String,
    candidate: Candidate,
    refusals: Arc<Refusals>,
    standing: Standing,
    role: watch::Sender<Role>,
    /// Whether it was logged that the API server cannot be asked.
    is_failing: bool,
}

/// What came of reading and writing the record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Done,
    /// It was changed by somebody else in between.
    Overtaken,
}

/// Where and as whom it runs.
pub(crate) struct Candidacy<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) lease: &'a str,
    pub(crate) identity: &'a str,
}

impl Election {
    /// Not running yet.
    pub(crate) fn new(
        client: &Client,
        candidacy: &Candidacy<'_>,
        refusals: Arc<Refusals>,
        standing: Standing,
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

    /// Who leads, from now on.
    pub(crate) fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// Runs until the Lease is not wanted any more, and releases it when it holds it.
    pub(crate) async fn run(mut self, mut wish: watch::Receiver<Wish>) {
        let mut ending = wish.clone();
        loop {
            tokio::select! {
                biased;
                // An owner that is gone wants it no more than one that says so.
                _ = ending.wait_for(|wish| *wish == Wish::Ended) => break,
                () = self.attempt() => {}
            }
            self.tell();
            let pause = self.pause(*wish.borrow_and_update());
            _ = timeout(pause, wish.changed()).await;
            self.tell();
        }
        self.release().await;
    }

    /// One attempt to get or keep the Lease, within the time that is left.
    async fn attempt(&mut self) {
        let now = Instant::now();
        let left = self.candidate.until().map(|until| until.saturating_duration_since(now));
        let limit = left.filter(|left| !left.is_zero()).unwrap_or(RENEW_DEADLINE);
        let tried = async {
            // What another wrote in between is looked at in the same attempt.
            match self.acquire_or_renew().await? {
                Attempt::Overtaken => self.acquire_or_renew().await.map(drop),
                Attempt::Done => Ok(()),
            }
        };
        match timeout(limit, tried).await {
            Ok(Ok(())) => self.reachable(),
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(_) => self.failed("the API server does not answer"),
        }
    }

    async fn acquire_or_renew(&mut self) -> Result<Attempt, Error> {
        let now = Instant::now();
        let own = self.candidate.own_record(now).filter(|own| own.metadata.resource_version.is_some());
        let found = match own {
            Some(own) => Some(own.clone()),
            None => self.permitted("get", self.leases.get_opt(&self.name).await)?,
        };
        let now = Instant::now();
        let post = PostParams::default();
        let (verb, written) = match self.candidate.consider(found, now, Timestamp::now()) {
            Step::Wait => return Ok(Attempt::Done),
            Step::Create(mut lease) => {
                lease.metadata.name = Some(self.name.clone());
                ("create", self.leases.create(&post, &lease).await)
            }
            Step::Replace(lease) => ("update", self.leases.replace(&self.name, &post, &lease).await),
        };
        match self.permitted(verb, written) {
            Ok(lease) => self.candidate.taken(lease, now),
            // Another was faster, or an earlier write of ours arrived after all.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {
                self.candidate.doubt();
                return Ok(Attempt::Overtaken);
            }
            Err(error) => {
                self.candidate.doubt();
                return Err(error);
            }
        }
        Ok(Attempt::Done)
    }

    fn permitted<T>(&self, verb: &'static str, answer: Result<T, Error>) -> Result<T, Error> {
        let permit = Permit {
            verb,
            resource: "leases.coordination.k8s.io".into(),
            namespace: self.namespace.as_str().into(),
            lost: "no replica can become the leader through it, and status and Events are not written",
        };
        self.refusals.judge(permit, answer)
    }

    /// Publishes the role where it changed.
    fn tell(&mut self) {
        let leads = self.candidate.leads(Instant::now());
        if !leads {
            self.candidate.yields();
        }
        let role = if leads { Role::Leader } else { Role::Follower };
        let changed = self.role.send_if_modified(|now| std::mem::replace(now, role) != role);
        if changed {
            self.standing.lead(leads);
            let (lease, holder) = (&self.name, self.candidate.holder());
            match role {
                Role::Leader => tracing::info!(lease, "leads: this replica writes status and Events"),
                Role::Follower => tracing::info!(lease, holder, "leads no more"),
            }
        }
    }

    /// The pause after an attempt. Followers differ a little, so that they do not all ask at once (client-go's jitter);
    /// a leader never sleeps past the moment at which it must stop leading.
    fn pause(&self, wish: Wish) -> Duration {
        match self.candidate.until() {
            Some(until) => RETRY.min(until.saturating_duration_since(Instant::now())),
            None if wish == Wish::Urgent => URGENT_RETRY,
            None => RETRY.mul_f64(1.0 + 1.2 * fastrand::f64()),
        }
    }

    async fn release(&mut self) {
        let Some(mut lease) = self.candidate.release(Instant::now(), Timestamp::now()) else { return };
        self.tell();
        let mut released = self.replace(&lease).await;
        if matches!(&released, Err(Error::Api(status)) if status.is_conflict()) {
            // A renewal of ours that was given up on the way may have arrived.
            released = match self.leases.get(&self.name).await {
                Ok(found) if held_by(&found) == Some(&self.identity) => {
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
        self.permitted("update", replaced)
    }

    fn failed(&mut self, error: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                lease = %self.name, error,
                "the Lease cannot be read or written; tried again, nobody's traffic is affected"
            );
        }
    }

    fn reachable(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(lease = %self.name, "the Lease can be read and written again");
        }
    }
}

fn held_by(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref()
}
