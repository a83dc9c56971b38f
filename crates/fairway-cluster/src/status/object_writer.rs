//! Executes the [`ObjectSchedule`]: reads and replaces the status of Gateway API objects, a few at a time, while this replica
//! leads. Does not decide what to write; most due statuses are found to be up to date without a request.

use std::sync::Arc;
use std::time::Duration;

use fairway_control::clock;
use fairway_control::pipeline::View;
use fairway_objects::object::{Kind, ObjectRef};
use fairway_objects::resources::Resources;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use http::Request;
use imbl::OrdMap;
use kube::{Client, Error};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::election::Role;
use super::objects::{JobResult, ObjectSchedule};
use super::observed::FIELD_MANAGER;
use super::pace::RequestPace;
use super::permission::{RefusedPermissions, RequiredPermission};
use super::replacements::LastWritten;
use super::shared_state::{ReporterState, StatusKind};
use super::statement::{PendingUpdate, WritableStatus, last_writer};
use super::updates::ViewUpdates;

/// Concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;
/// Comparisons in a row before other tasks get a turn.
const MAX_COMPARISONS_PER_TURN: usize = 1_000;
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before conflicts are reported after a change: that costs as much as there are conflicts.
const CONFLICT_REPORT_DELAY: Duration = Duration::from_secs(1);
/// Conflicts end without an event, so they are checked at this interval.
const CONFLICT_REPORT_INTERVAL: Duration = Duration::from_secs(60);
const CONSEQUENCE: &str = "the status of Gateway API objects there is not written";

/// The API version in which a Gateway API kind is requested.
pub type Versions = Arc<dyn Fn(Kind) -> Option<&'static str> + Send + Sync>;

/// The desired statuses of a view.
pub(crate) type Statuses<S> = Box<dyn Fn(&View) -> OrdMap<ObjectRef, Arc<S>> + Send>;

/// Writes the status of Gateway API objects.
pub(crate) struct ObjectWriter<S> {
    client: Client,
    refusals: Arc<RefusedPermissions>,
    standing: ReporterState,
    versions: Versions,
    statuses: Statuses<S>,
    objects: ObjectSchedule<S>,
    resources: Resources,
    pace: RequestPace,
    /// When to report conflicts.
    report_at: Option<Instant>,
    running: FuturesUnordered<BoxFuture<'static, (ObjectRef, JobResult)>>,
}

impl<S: WritableStatus> ObjectWriter<S> {
    /// A writer that has not started.
    pub(crate) fn new(
        client: Client,
        refusals: Arc<RefusedPermissions>,
        standing: ReporterState,
        versions: Versions,
        statuses: Statuses<S>,
    ) -> Self {
        Self {
            client,
            refusals,
            standing,
            versions,
            statuses,
            objects: ObjectSchedule::new(),
            resources: Resources::default(),
            pace: RequestPace::for_statuses(Instant::now()),
            report_at: None,
            running: FuturesUnordered::new(),
        }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(mut self, mut updates: ViewUpdates, mut role: watch::Receiver<Role>) {
        self.update_desired(&mut updates);
        let mut led = false;
        loop {
            let leads = *role.borrow_and_update() == Role::Leader;
            if leads != led {
                led = leads;
                self.change_role(leads);
            }
            if leads {
                self.start_jobs();
            }
            let due =
                self.objects.next_due().filter(|_| leads && self.running.len() < MAX_CONCURRENT_REQUESTS);
            let due = due.map(|due| due.max(self.pace.next_at()));
            let tell = self.report_at;
            tokio::select! {
                Some((object, said)) = self.running.next(), if !self.running.is_empty() => {
                    self.record_result(&object, said);
                }
                () = updates.changed() => self.update_desired(&mut updates),
                Ok(()) = role.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                () = sleep_until(tell.unwrap_or_else(Instant::now)), if tell.is_some() => {
                    self.report_conflicts();
                }
            }
        }
    }

    /// Another replica may write while this one does not lead, and may have written before it leads.
    fn change_role(&mut self, leads: bool) {
        self.running.clear();
        self.objects.forget_conflicts();
        self.report_conflicts();
        if leads {
            self.objects.schedule_all(Instant::now());
        }
    }

    fn schedule_conflict_report(&mut self) {
        let soon = Instant::now() + CONFLICT_REPORT_DELAY;
        self.report_at = Some(self.report_at.map_or(soon, |at| at.min(soon)));
    }

    fn report_conflicts(&mut self) {
        let now = Instant::now();
        let contested = self.objects.conflict_diagnostics(now);
        self.report_at = if contested.is_empty() { None } else { Some(now + CONFLICT_REPORT_INTERVAL) };
        self.standing.set_conflicts(StatusKind::GatewayApi, contested);
    }

    fn update_desired(&mut self, updates: &mut ViewUpdates) {
        if let Some(view) = updates.view() {
            self.objects.update_desired(&(self.statuses)(&view), Instant::now());
            self.resources = view.outcome.resources;
        }
        // Objects may be gone, and conflicts over.
        self.schedule_conflict_report();
    }

    fn start_jobs(&mut self) {
        // A new leader schedules all objects: other tasks get their turn in between.
        for _ in 0..MAX_COMPARISONS_PER_TURN {
            if self.running.len() >= MAX_CONCURRENT_REQUESTS || !self.pace.permits(Instant::now()) {
                return;
            }
            let Some((object, status)) = self.objects.take_due(Instant::now()) else { return };
            let known = self.resources.gateway.status(&object);
            if known.is_some_and(|known| status.pending_update(&known, clock::unix_seconds()).is_none()) {
                self.objects.record_result(&object, JobResult::NoWrite, Instant::now());
                continue;
            }
            let version = (self.versions)(object.kind);
            let Some(path) = path(&object, version) else {
                self.objects.record_result(&object, JobResult::NoWrite, Instant::now());
                continue;
            };
            self.pace.spend(Instant::now());
            let before = self.objects.last_written(&object);
            let (client, refusals) = (self.client.clone(), self.refusals.clone());
            let job = StatusJob { client, refusals, path, status, before };
            self.running.push(Box::pin(job.run(object)));
        }
    }

    fn record_result(&mut self, object: &ObjectRef, result: JobResult) {
        match &result {
            JobResult::Written(_) => self.standing.count_status_written(),
            JobResult::Refused | JobResult::Failed => self.standing.count_status_failed(),
            JobResult::Replaced(_) => self.schedule_conflict_report(),
            JobResult::NoWrite | JobResult::Conflict => {}
        }
        self.objects.record_result(object, result, Instant::now());
    }
}

/// The path of the object, without `/status`.
fn path(object: &ObjectRef, version: Option<&'static str>) -> Option<String> {
    let known = object.kind.of_gateways()?;
    let version = version.or(known.versions.first().copied())?;
    Some(known.path(version, &object.key.namespace, &object.key.name))
}

/// A write in progress.
struct StatusJob<S> {
    client: Client,
    refusals: Arc<RefusedPermissions>,
    path: String,
    status: Arc<S>,
    before: LastWritten,
}

impl<S: WritableStatus> StatusJob<S> {
    async fn run(self, object: ObjectRef) -> (ObjectRef, JobResult) {
        let result = match timeout(REQUEST_TIMEOUT, self.write_status(&object)).await {
            Ok(Ok(said)) => said,
            Ok(Err(Error::Api(status))) if status.is_forbidden() => JobResult::Refused,
            Ok(Err(Error::Api(status))) if status.is_conflict() => JobResult::Conflict,
            Ok(Err(Error::Api(status))) if status.is_not_found() => JobResult::NoWrite,
            Ok(Err(error)) => {
                tracing::debug!(path = self.path, %error, "status not written; retrying");
                JobResult::Failed
            }
            Err(_) => JobResult::Failed,
        };
        (object, result)
    }

    /// Reads the object as stored first: entries of other writers must stay byte for byte, and the known object has only the
    /// fields of this version.
    async fn write_status(&self, object: &ObjectRef) -> Result<JobResult, Error> {
        let get = Request::get(&self.path).body(Vec::new()).map_err(Error::HttpError)?;
        let mut found: Value = self.send("get", object, get).await?;
        if !self.is_made_for(&found) {
            return Ok(JobResult::NoWrite);
        }
        let Some(PendingUpdate { status, differing }) = self.pending_update(&found) else {
            return Ok(JobResult::NoWrite);
        };
        if self.before.is_replaced(&differing) {
            return Ok(JobResult::Replaced(last_writer(&found)));
        }
        found["status"] = status;
        let uri = format!("{}/status?fieldManager={FIELD_MANAGER}", self.path);
        let put = Request::put(uri).header(http::header::CONTENT_TYPE, "application/json");
        let put = put.body(found.to_string().into_bytes()).map_err(Error::HttpError)?;
        let written = self.send("update", object, put).await?;
        Ok(JobResult::Written(self.pending_update(&written).map(|owed| owed.differing).unwrap_or_default()))
    }

    fn pending_update(&self, object: &Value) -> Option<PendingUpdate> {
        self.status.pending_update(&object["status"], clock::unix_seconds())
    }

    /// Whether the status was made for this state of the object; if not, a newer status is on its way.
    fn is_made_for(&self, found: &Value) -> bool {
        let uid = found.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let generation = found.pointer("/metadata/generation").and_then(Value::as_i64);
        uid == self.status.uid() && generation == self.status.generation()
    }

    async fn send(
        &self,
        verb: &'static str,
        object: &ObjectRef,
        request: Request<Vec<u8>>,
    ) -> Result<Value, Error> {
        let response = self.client.request(request).await;
        let subresource = if verb == "get" { "" } else { "/status" };
        let resource =
            object.kind.api().map(|known| known.group_resource(subresource)).unwrap_or_default().into();
        let permit =
            RequiredPermission { verb, resource, namespace: object.key.namespace.clone(), lost: CONSEQUENCE };
        self.refusals.check(permit, response)
    }
}
