//! Carries out what the [`Schedule`] says: reads and writes the status of Ingresses, a few at a time, while this replica
//! leads. Owns no decision about what is written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectKey;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::networking::v1::{Ingress, IngressLoadBalancerIngress};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::alternative::{Alternative, Way};
use super::election::Role;
use super::observed::{FIELD_MANAGER, ObservedStatus};
use super::pace::Pace;
use super::permission::{Permit, Refusals};
use super::publish::Addresses;
use super::schedule::{Done, Job, Schedule};
use super::standing::{Standing, StatusOf};
use super::updates::Updates;

/// Requests at a time.
const AT_ONCE: usize = 16;
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the writer is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Publish the addresses.
    #[default]
    Publish,
    /// Remove them, then end.
    Clear,
}

/// What the writer listens to.
pub(crate) struct Signals {
    pub(crate) updates: Updates,
    pub(crate) addresses: watch::Receiver<Option<Addresses>>,
    pub(crate) role: watch::Receiver<Role>,
    pub(crate) order: watch::Receiver<Order>,
}

/// Writes status.
pub(crate) struct Writer {
    client: Client,
    refusals: Arc<Refusals>,
    verbs: Arc<Alternative>,
    standing: Standing,
    schedule: Schedule,
    pace: Pace,
    running: FuturesUnordered<BoxFuture<'static, (ObjectKey, Done)>>,
}

impl Writer {
    /// One that has not written yet.
    pub(crate) fn new(client: Client, refusals: Arc<Refusals>, standing: Standing) -> Self {
        let pace = Pace::of_statuses(Instant::now());
        let (schedule, running, verbs) = (Schedule::new(), FuturesUnordered::new(), Arc::default());
        Self { client, refusals, verbs, standing, schedule, pace, running }
    }

    /// Writes until it is asked to clear and has done so, or the sender of its commands is gone.
    pub(crate) async fn run(mut self, mut signals: Signals) {
        self.look(&mut signals);
        loop {
            let leads = *signals.role.borrow_and_update() == Role::Leader;
            let clearing = *signals.order.borrow_and_update() == Order::Clear;
            if clearing {
                // Here, not where the order is waited for: the role may change in the same moment and be noticed first.
                self.schedule.clear(Instant::now());
            }
            if leads {
                self.start_jobs(clearing);
            } else {
                self.step_back();
            }
            if clearing && self.running.is_empty() && (!leads || self.schedule.rests()) {
                return;
            }
            let due = self.schedule.next_due().filter(|_| leads && self.running.len() < AT_ONCE);
            let due = due.map(|due| if clearing { due } else { due.max(self.pace.next()) });
            tokio::select! {
                Some((key, done)) = self.running.next(), if !self.running.is_empty() => self.done(&key, done),
                ordered = signals.order.changed() => if ordered.is_err() { return },
                () = signals.updates.next() => self.look(&mut signals),
                Ok(()) = signals.addresses.changed() => self.look(&mut signals),
                Ok(()) = signals.role.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn look(&mut self, signals: &mut Signals) {
        let now = Instant::now();
        if let Some(view) = signals.updates.view() {
            self.schedule.serve(&view.outcome.translation, now);
        }
        let addresses = signals.addresses.borrow_and_update().clone();
        if self.schedule.wanted() != addresses.as_ref() {
            self.schedule.want(addresses, now);
        }
        self.standing.contests(StatusOf::Ingresses, self.schedule.contested(now));
    }

    /// Starts what is due, as far as the pace permits; at the end there is no time to wait.
    fn start_jobs(&mut self, clearing: bool) {
        while self.running.len() < AT_ONCE && (clearing || self.pace.permits(Instant::now())) {
            let Some(job) = self.schedule.take(Instant::now()) else { return };
            self.pace.spend(Instant::now());
            let (client, refusals, verbs) = (self.client.clone(), self.refusals.clone(), self.verbs.clone());
            self.running.push(Box::pin(RunningJob { client, refusals, verbs }.run(job)));
        }
    }

    /// Another may write now: what is under way is given up.
    fn step_back(&mut self) {
        let now = Instant::now();
        if !self.running.is_empty() {
            self.running.clear();
            self.schedule.abandon(now);
        }
        self.schedule.forget_left(now);
    }

    fn done(&mut self, key: &ObjectKey, done: Done) {
        let now = Instant::now();
        match done {
            Done::Written(_) => self.standing.status_written(),
            Done::Refused | Done::Failed => self.standing.status_failed(),
            _ => {}
        }
        self.schedule.done(key, done, now);
        self.standing.contests(StatusOf::Ingresses, self.schedule.contested(now));
    }
}

/// One job under way.
struct RunningJob {
    client: Client,
    refusals: Arc<Refusals>,
    verbs: Arc<Alternative>,
}

impl RunningJob {
    async fn run(self, job: Job) -> (ObjectKey, Done) {
        let (key, verb, resource) = match &job {
            Job::Read(key) => (key.clone(), "get", "ingresses.networking.k8s.io"),
            Job::Write { ingress, .. } => {
                (ingress.clone(), "patch or update", "ingresses/status.networking.k8s.io")
            }
        };
        let asked = timeout(PATIENCE, self.ask(&key, &job)).await;
        let Ok(answer) = asked else {
            tracing::debug!(ingress = %key, verb, "no answer in time about status; tried again");
            return (key, Done::Failed);
        };
        let lost = "the status of Ingresses there does not say where they are reached";
        let permit = Permit { verb, resource: resource.into(), namespace: key.namespace.clone(), lost };
        let done = match self.refusals.judge(permit, answer) {
            Ok(None) => Done::Gone,
            Ok(Some(ingress)) => match job {
                Job::Read(_) => Done::Read(ObservedStatus::from(&ingress)),
                Job::Write { .. } => Done::Written(ObservedStatus::from(&ingress)),
            },
            Err(Error::Api(status)) if status.is_forbidden() => Done::Refused,
            Err(Error::Api(status)) if status.is_conflict() => Done::Conflict,
            Err(error) => {
                tracing::debug!(ingress = %key, verb, %error, "status; tried again");
                Done::Failed
            }
        };
        (key, done)
    }

    async fn ask(&self, key: &ObjectKey, job: &Job) -> Result<Option<Ingress>, Error> {
        let api = &Api::<Ingress>::namespaced(self.client.clone(), &key.namespace);
        let Job::Write { version, addresses, .. } = job else { return api.get_opt(&key.name).await };
        let written = self.verbs.send(|way| async move {
            match way {
                Way::Own => patch(api, &key.name, version, addresses).await,
                Way::IngressNginx => update(api, &key.name, version, addresses).await,
            }
        });
        match written.await {
            Ok(ingress) => Ok(Some(ingress)),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The whole list: a merge patch replaces lists (RFC 7396). With the version it fails when somebody was faster.
async fn patch(
    api: &Api<Ingress>,
    name: &str,
    version: &str,
    addresses: &BTreeSet<Arc<str>>,
) -> Result<Ingress, Error> {
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = json!({
        "metadata": { "resourceVersion": version },
        "status": { "loadBalancer": { "ingress": entries(addresses) } }
    });
    api.patch_status(name, &parameters, &Patch::Merge(patch)).await
}

/// The same with the permission to update, which needs the whole object. It carries the version that was read, so that
/// the API server, too, refuses it when somebody was faster.
async fn update(
    api: &Api<Ingress>,
    name: &str,
    version: &str,
    addresses: &BTreeSet<Arc<str>>,
) -> Result<Ingress, Error> {
    let mut ingress = api.get(name).await?;
    if ingress.metadata.resource_version.as_deref() != Some(version) {
        let conflict = Status::failure("the Ingress has another version by now", "Conflict").with_code(409);
        return Err(Error::Api(conflict.boxed()));
    }
    let balancer = ingress.status.get_or_insert_default().load_balancer.get_or_insert_default();
    balancer.ingress = entries(addresses);
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    api.replace_status(name, &parameters, &ingress).await
}

fn entries(addresses: &BTreeSet<Arc<str>>) -> Option<Vec<IngressLoadBalancerIngress>> {
    let entry = |address: &Arc<str>| {
        let (text, default) = (Some(address.to_string()), IngressLoadBalancerIngress::default());
        match address.parse::<std::net::IpAddr>() {
            Ok(_) => IngressLoadBalancerIngress { ip: text, ..default },
            Err(_) => IngressLoadBalancerIngress { hostname: text, ..default },
        }
    };
    (!addresses.is_empty()).then(|| addresses.iter().map(entry).collect())
}
