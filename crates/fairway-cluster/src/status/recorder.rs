//! Writes due Events of [`Notices`], one at a time and rate-limited, while this replica leads.

use std::sync::Arc;
use std::time::Duration;

use fairway_control::engine::EngineOutput;
use fairway_model::Origin;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::kinds::{ApiResource, KINDS};
use fairway_objects::object::{ObjectKey, ObjectRef};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::alternative::{AlternativeRequests, RequestForm};
use super::election::Role;
use super::event::{core_event, event};
use super::notices::{DueEvent, Notices, WriteOutcome, event_namespace};
use super::observed::FIELD_MANAGER;
use super::pace::RequestPace;
use super::permission::{RefusedPermissions, RequiredPermission, is_namespace_terminating};
use super::shared_state::ReporterState;
use super::updates::ViewUpdates;

/// Events at once after idle time.
const EVENT_BURST: u32 = 50;
/// Then one Event per interval.
const EVENT_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CONSEQUENCE: &str =
    "what is wrong with objects is in the log, the metrics and /config, but not in their Events";

/// What the recorder listens to.
pub(crate) struct RecorderSources {
    pub(crate) updates: ViewUpdates,
    pub(crate) contested: watch::Receiver<u64>,
    pub(crate) role: watch::Receiver<Role>,
}

/// Writes Events.
pub(crate) struct EventRecorder {
    client: Client,
    instance: String,
    refusals: Arc<RefusedPermissions>,
    /// `events.k8s.io` or the core API: two APIs for the same objects.
    apis: AlternativeRequests,
    standing: ReporterState,
    notices: Notices,
    pace: RequestPace,
}

impl EventRecorder {
    /// A recorder that has not started; `instance` is this pod.
    pub(crate) fn new(
        client: Client,
        instance: &str,
        refusals: Arc<RefusedPermissions>,
        standing: ReporterState,
    ) -> Self {
        let (instance, pace) =
            (instance.to_owned(), RequestPace::new(EVENT_BURST, EVENT_INTERVAL, Instant::now()));
        let (notices, apis) = (Notices::default(), AlternativeRequests::default());
        Self { client, instance, refusals, apis, standing, notices, pace }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(mut self, mut sources: RecorderSources) {
        self.update_notices(&mut sources);
        loop {
            let leads = *sources.role.borrow_and_update() == Role::Leader;
            let due = self.notices.next_due().filter(|_| leads).map(|due| due.max(self.pace.next_at()));
            tokio::select! {
                () = sources.updates.changed() => self.update_notices(&mut sources),
                Ok(()) = sources.contested.changed() => self.update_notices(&mut sources),
                Ok(()) = sources.role.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.write_one(&mut sources).await;
                }
            }
        }
    }

    fn update_notices(&mut self, sources: &mut RecorderSources) {
        if let Some(view) = sources.updates.view() {
            self.notices.update(&view, self.standing.diagnostics(), Instant::now());
        }
    }

    async fn write_one(&mut self, sources: &mut RecorderSources) {
        let Some(due) = self.notices.take_due(Instant::now()) else { return };
        self.pace.spend(Instant::now());
        let outcome = sources.updates.view().map(|view| view.outcome);
        let uid = outcome.and_then(|outcome| known_uid(&outcome, &due.diagnostic.origin));
        let wrote = tokio::select! {
            wrote = self.write_event(&due, uid) => wrote,
            // Another replica may write now.
            Ok(_) = sources.role.wait_for(|role| *role != Role::Leader) => {
                return self.notices.reschedule(&due.diagnostic, Instant::now());
            }
        };
        if matches!(wrote, WriteOutcome::Written(_)) {
            self.standing.count_event_written();
        }
        self.notices.record_outcome(&due.diagnostic, wrote, Instant::now());
    }

    async fn write_event(&self, due: &DueEvent, uid: Option<String>) -> WriteOutcome {
        let written = async {
            let uid = match uid {
                Some(uid) => uid,
                None => match self.fetch_uid(&due.diagnostic).await? {
                    Some(uid) => uid,
                    None => return Ok(WriteOutcome::ObjectGone),
                },
            };
            self.create_or_count(due, &uid).await.map(WriteOutcome::Written)
        };
        match timeout(REQUEST_TIMEOUT, written).await {
            Ok(Ok(wrote)) => wrote,
            Ok(Err(Error::Api(status))) if is_namespace_terminating(&status) => WriteOutcome::ObjectGone,
            Ok(Err(Error::Api(status))) if status.is_forbidden() => WriteOutcome::Refused,
            Ok(Err(error)) => {
                tracing::debug!(about = %due.diagnostic.origin, %error, "an Event is not written; retrying");
                WriteOutcome::Failed
            }
            Err(_) => WriteOutcome::Failed,
        }
    }

    /// Writes the Event, or increments its series if it exists; returns the count.
    async fn create_or_count(&self, due: &DueEvent, uid: &str) -> Result<i32, Error> {
        let event = event(&due.diagnostic, uid, &self.instance, Timestamp::now());
        let name = event.metadata.name.clone().unwrap_or_default();
        if let Some(count) = due.count
            && self.increment_count(&name, due, count).await?.is_some()
        {
            return Ok(count.saturating_add(1));
        }
        match self.create(due, &event).await {
            Ok(()) => Ok(1),
            Err(Error::Api(status)) if status.is_already_exists() => {
                // An empty patch reads it, which avoids the permission to get Events.
                let count = self.patch(&name, due, json!({})).await?.unwrap_or(1);
                self.increment_count(&name, due, count).await?;
                Ok(count.saturating_add(1))
            }
            Err(error) => Err(error),
        }
    }

    async fn create(&self, due: &DueEvent, event: &Event) -> Result<(), Error> {
        let post = &PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let namespace = &*event_namespace(&due.diagnostic);
        let created = self.apis.send(|way| {
            let client = self.client.clone();
            async move {
                match way {
                    RequestForm::Fairway => {
                        Api::namespaced(client, namespace).create(post, event).await.map(drop)
                    }
                    RequestForm::IngressNginx => {
                        let api = Api::namespaced(client, namespace);
                        api.create(post, &core_event(event.clone())).await.map(drop)
                    }
                }
            }
        });
        self.check_permission("create", due, created.await)
    }

    async fn increment_count(&self, name: &str, due: &DueEvent, count: i32) -> Result<Option<i32>, Error> {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(Timestamp::now());
        let series = json!({ "series": { "count": count.saturating_add(1), "lastObservedTime": now } });
        self.patch(name, due, series).await
    }

    /// Patches an Event; returns the count of its series before the patch, `None` if it is gone.
    async fn patch(&self, name: &str, due: &DueEvent, patch: Value) -> Result<Option<i32>, Error> {
        let parameters =
            &PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (namespace, patch) = (&*event_namespace(&due.diagnostic), &Patch::Merge(patch));
        let patched = self.apis.send(|way| {
            let client = self.client.clone();
            async move {
                let count = match way {
                    RequestForm::Fairway => {
                        let api = Api::<Event>::namespaced(client, namespace);
                        api.patch(name, parameters, patch).await?.series.map(|series| series.count)
                    }
                    RequestForm::IngressNginx => {
                        let api = Api::<CoreEvent>::namespaced(client, namespace);
                        api.patch(name, parameters, patch).await?.series.and_then(|series| series.count)
                    }
                };
                Ok(count.unwrap_or(1))
            }
        });
        match self.check_permission("patch", due, patched.await) {
            Ok(count) => Ok(Some(count)),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn check_permission<T>(
        &self,
        verb: &'static str,
        due: &DueEvent,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        let namespace = event_namespace(&due.diagnostic);
        let resource = "events.events.k8s.io or events of the core API".into();
        self.refusals.check(RequiredPermission { verb, resource, namespace, lost: CONSEQUENCE }, answer)
    }

    /// The uid of an object, so that `kubectl describe` finds its Events; empty if it may not be read, `None` if the object is
    /// gone.
    async fn fetch_uid(&self, it: &Diagnostic) -> Result<Option<String>, Error> {
        let known = KINDS.iter().find(|known| known.name == &*it.origin.kind);
        // An unknown Gateway API object is gone.
        let Some(known) = known.filter(|known| known.kind.of_gateways().is_none()) else { return Ok(None) };
        let version = known.versions[0];
        let resource = kube::core::ApiResource {
            group: known.group.to_owned(),
            version: version.to_owned(),
            api_version: known.api_version(version),
            kind: known.name.to_owned(),
            plural: known.resource.to_owned(),
        };
        let client = self.client.clone();
        let api: Api<DynamicObject> = match known.is_namespaced {
            true => Api::namespaced_with(client, &it.origin.namespace, &resource),
            false => Api::all_with(client, &resource),
        };
        match api.get_metadata_opt(&it.origin.name).await {
            Ok(found) => Ok(found.map(|object| object.metadata.uid.unwrap_or_default())),
            // The Event is still useful without it; the reader of the kind reports the missing permission.
            Err(Error::Api(status)) if status.is_forbidden() => Ok(Some(String::new())),
            Err(error) => Err(error),
        }
    }
}

/// The uid of an object, if it is known without a request.
fn known_uid(outcome: &EngineOutput, origin: &Origin) -> Option<String> {
    let key = ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() };
    let uid = match &*origin.kind {
        "Ingress" => outcome.translation.status.get(&key).map(|status| status.uid.to_string()),
        kind => {
            let object = ObjectRef::new(ApiResource::find_gateway_kind(kind)?.kind, key);
            outcome.resources.gateway.metadata(&object)?.uid.clone()
        }
    };
    uid.filter(|uid| !uid.is_empty())
}
