//! Runs the jobs of the [`IngressSchedule`], which read and write the status of Ingresses, while this replica leads.
//! The schedule decides what to write and when.

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

use super::alternative::{AlternativeRequests, RequestForm};
use super::election::Role;
use super::observed::{FIELD_MANAGER, ObservedStatus};
use super::pace::RequestPace;
use super::permission::{RefusedPermissions, RequiredPermission};
use super::publish::Addresses;
use super::schedule::{IngressJob, IngressJobResult, IngressSchedule};
use super::shared_state::{ReporterState, StatusKind};
use super::updates::ViewUpdates;

/// Maximum number of concurrent jobs, which bounds the load on the API server.
const MAX_CONCURRENT_JOBS: usize = 16;
/// Timeout of a job; the schedule retries it.
const JOB_TIMEOUT: Duration = Duration::from_secs(10);
/// The consequence of a missing permission, for the log.
const CONSEQUENCE: &str = "the status of Ingresses there has no addresses";

/// Tells the writer to publish or remove addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriterCommand {
    /// Write the addresses of the fleet to the status of served Ingresses.
    #[default]
    Publish,
    /// Remove the addresses of the fleet, then return from [`IngressStatusWriter::run`].
    Clear,
}

/// The inputs of the writer; it reacts to each change of them.
pub(crate) struct WriterSignals {
    pub(crate) updates: ViewUpdates,
    pub(crate) addresses: watch::Receiver<Option<Addresses>>,
    pub(crate) role: watch::Receiver<Role>,
    pub(crate) command: watch::Receiver<WriterCommand>,
}

/// Writes the addresses of the fleet to the status of Ingresses.
pub(crate) struct IngressStatusWriter {
    client: Client,
    refusals: Arc<RefusedPermissions>,
    write_requests: Arc<AlternativeRequests>,
    reporter_state: ReporterState,
    schedule: IngressSchedule,
    pace: RequestPace,
    running_jobs: FuturesUnordered<BoxFuture<'static, (ObjectKey, IngressJobResult)>>,
}

impl IngressStatusWriter {
    /// Creates a writer; [`Self::run`] starts it.
    pub(crate) fn new(
        client: Client,
        refusals: Arc<RefusedPermissions>,
        reporter_state: ReporterState,
    ) -> Self {
        let pace = RequestPace::for_statuses(Instant::now());
        let (schedule, running_jobs) = (IngressSchedule::new(), FuturesUnordered::new());
        let write_requests = Arc::default();
        Self { client, refusals, write_requests, reporter_state, schedule, pace, running_jobs }
    }

    /// Runs until the sender of commands is dropped or, after [`WriterCommand::Clear`], until the addresses are
    /// removed. A replica that does not lead removes no addresses and returns at once.
    pub(crate) async fn run(mut self, mut signals: WriterSignals) {
        self.update_schedule(&mut signals);
        loop {
            let leads = *signals.role.borrow_and_update() == Role::Leader;
            let clearing = *signals.command.borrow_and_update() == WriterCommand::Clear;
            if clearing {
                // Clearing does not start in the `command.changed()` branch below: if the role changes at the same
                // time, `select!` may take the branch of the role, and then the command already counts as seen.
                self.schedule.start_clearing(Instant::now());
            }
            if leads {
                self.start_jobs(clearing);
            } else {
                self.stop_leading();
            }
            if clearing && self.running_jobs.is_empty() && (!leads || self.schedule.is_idle()) {
                return;
            }
            let may_start = leads && self.running_jobs.len() < MAX_CONCURRENT_JOBS;
            let next_due = self.schedule.next_due().filter(|_| may_start);
            let next_start = next_due.map(|due| if clearing { due } else { due.max(self.pace.next_at()) });
            tokio::select! {
                Some((key, result)) = self.running_jobs.next(), if !self.running_jobs.is_empty() => {
                    self.record_result(&key, result);
                }
                command_change = signals.command.changed() => if command_change.is_err() { return },
                () = signals.updates.changed() => self.update_schedule(&mut signals),
                Ok(()) = signals.addresses.changed() => self.update_schedule(&mut signals),
                Ok(()) = signals.role.changed() => {}
                () = sleep_until(next_start.unwrap_or_else(Instant::now)), if next_start.is_some() => {}
            }
        }
    }

    fn update_schedule(&mut self, signals: &mut WriterSignals) {
        let now = Instant::now();
        if let Some(view) = signals.updates.view() {
            self.schedule.update_served(&view.outcome.translation, now);
        }
        let addresses = signals.addresses.borrow_and_update().clone();
        if self.schedule.desired_addresses() != addresses.as_ref() {
            self.schedule.set_addresses(addresses, now);
        }
        self.reporter_state.set_conflicts(StatusKind::Ingresses, self.schedule.conflict_diagnostics(now));
    }

    /// Starts due jobs as far as the rate limit permits. Clearing ignores the rate limit, because a shutdown leaves
    /// little time.
    fn start_jobs(&mut self, clearing: bool) {
        while self.running_jobs.len() < MAX_CONCURRENT_JOBS && (clearing || self.pace.permits(Instant::now()))
        {
            let Some(job) = self.schedule.take_due(Instant::now()) else { return };
            self.pace.spend(Instant::now());
            let (client, refusals) = (self.client.clone(), self.refusals.clone());
            let write_requests = self.write_requests.clone();
            self.running_jobs.push(Box::pin(RunningJob { client, refusals, write_requests }.run(job)));
        }
    }

    /// Abandons the running jobs, because another replica may write now.
    fn stop_leading(&mut self) {
        let now = Instant::now();
        if !self.running_jobs.is_empty() {
            self.running_jobs.clear();
            self.schedule.abandon_jobs(now);
        }
        self.schedule.forget_removed(now);
    }

    fn record_result(&mut self, key: &ObjectKey, result: IngressJobResult) {
        let now = Instant::now();
        match result {
            IngressJobResult::Written(_) => self.reporter_state.count_status_written(),
            IngressJobResult::Refused | IngressJobResult::Failed => self.reporter_state.count_status_failed(),
            _ => {}
        }
        self.schedule.record_result(key, result, now);
        self.reporter_state.set_conflicts(StatusKind::Ingresses, self.schedule.conflict_diagnostics(now));
    }
}

/// Sends the requests of one job.
struct RunningJob {
    client: Client,
    refusals: Arc<RefusedPermissions>,
    write_requests: Arc<AlternativeRequests>,
}

impl RunningJob {
    async fn run(self, job: IngressJob) -> (ObjectKey, IngressJobResult) {
        let (key, verb, resource) = match &job {
            IngressJob::Read(key) => (key.clone(), "get", "ingresses.networking.k8s.io"),
            IngressJob::Write { ingress, .. } => {
                (ingress.clone(), "patch or update", "ingresses/status.networking.k8s.io")
            }
        };
        let attempt = timeout(JOB_TIMEOUT, self.send(&key, &job)).await;
        let Ok(response) = attempt else {
            tracing::debug!(ingress = %key, verb, "status request timed out; retrying");
            return (key, IngressJobResult::Failed);
        };
        let permission = RequiredPermission {
            verb,
            resource: resource.into(),
            namespace: key.namespace.clone(),
            lost: CONSEQUENCE,
        };
        let result = match self.refusals.check(permission, response) {
            Ok(None) => IngressJobResult::Gone,
            Ok(Some(ingress)) => match job {
                IngressJob::Read(_) => IngressJobResult::Read(ObservedStatus::from(&ingress)),
                IngressJob::Write { .. } => IngressJobResult::Written(ObservedStatus::from(&ingress)),
            },
            Err(Error::Api(status)) if status.is_forbidden() => IngressJobResult::Refused,
            Err(Error::Api(status)) if status.is_conflict() => IngressJobResult::Conflict,
            Err(error) => {
                tracing::debug!(ingress = %key, verb, %error, "status request failed; retrying");
                IngressJobResult::Failed
            }
        };
        (key, result)
    }

    /// Reads or writes the Ingress; returns `None` if it does not exist.
    async fn send(&self, key: &ObjectKey, job: &IngressJob) -> Result<Option<Ingress>, Error> {
        let api = &Api::<Ingress>::namespaced(self.client.clone(), &key.namespace);
        let IngressJob::Write { version, addresses, .. } = job else { return api.get_opt(&key.name).await };
        let write = self.write_requests.send(|form| async move {
            match form {
                RequestForm::Fairway => patch_status(api, &key.name, version, addresses).await,
                RequestForm::IngressNginx => update_status(api, &key.name, version, addresses).await,
            }
        });
        match write.await {
            Ok(ingress) => Ok(Some(ingress)),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Writes the status with the `patch` permission. The patch contains all addresses, because a merge patch replaces
/// whole lists (RFC 7396). It contains `version` so that the API server rejects it after a concurrent change.
async fn patch_status(
    api: &Api<Ingress>,
    name: &str,
    version: &str,
    addresses: &BTreeSet<Arc<str>>,
) -> Result<Ingress, Error> {
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = json!({
        "metadata": { "resourceVersion": version },
        "status": { "loadBalancer": { "ingress": ingress_entries(addresses) } }
    });
    api.patch_status(name, &parameters, &Patch::Merge(patch)).await
}

/// Writes the status with the `update` permission, which the manifests of ingress-nginx grant. An update needs the
/// complete object, so this function reads it first. The object contains its version, so that the API server rejects
/// the update after a concurrent change.
async fn update_status(
    api: &Api<Ingress>,
    name: &str,
    version: &str,
    addresses: &BTreeSet<Arc<str>>,
) -> Result<Ingress, Error> {
    let mut ingress = api.get(name).await?;
    if ingress.metadata.resource_version.as_deref() != Some(version) {
        let conflict = Status::failure("the Ingress was changed concurrently", "Conflict").with_code(409);
        return Err(Error::Api(conflict.boxed()));
    }
    let load_balancer = ingress.status.get_or_insert_default().load_balancer.get_or_insert_default();
    load_balancer.ingress = ingress_entries(addresses);
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    api.replace_status(name, &parameters, &ingress).await
}

fn ingress_entries(addresses: &BTreeSet<Arc<str>>) -> Option<Vec<IngressLoadBalancerIngress>> {
    let to_entry = |address: &Arc<str>| {
        let (address_text, default) = (Some(address.to_string()), IngressLoadBalancerIngress::default());
        match address.parse::<std::net::IpAddr>() {
            Ok(_) => IngressLoadBalancerIngress { ip: address_text, ..default },
            Err(_) => IngressLoadBalancerIngress { hostname: address_text, ..default },
        }
    };
    (!addresses.is_empty()).then(|| addresses.iter().map(to_entry).collect())
}
