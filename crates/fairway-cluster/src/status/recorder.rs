//! Writes the Events that are due on the [`Notices`], one at a time and not too many, while this replica leads.

use std::sync::Arc;
use std::time::Duration;

use fairway_control::engine::Outcome;
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

use super::alternative::{Alternative, Way};
use super::election::Role;
use super::event::{core_event, event};
use super::notices::{Due, Notices, WriteOutcome, namespace};
use super::observed::FIELD_MANAGER;
use super::pace::Pace;
use super::permission::{Permit, Refusals, is_ending};
use super::standing::Standing;
use super::updates::Updates;

/// So many at once, when none was written for a while.
const BURST: u32 = 50;
/// Then one in each such time.
const SPACING: Duration = Duration::from_millis(100);
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);
const LOST: &str =
    "what is wrong with objects is in the log, the metrics and /config, but not in their Events";

/// What the recorder listens to.
pub(crate) struct Sources {
    pub(crate) updates: Updates,
    pub(crate) contested: watch::Receiver<u64>,
    pub(crate) role: watch::Receiver<Role>,
}

/// Writes Events.
pub(crate) struct Recorder {
    client: Client,
    instance: String,
    refusals: Arc<Refusals>,
    /// `events.k8s.io`, or the core API: two APIs of the same objects.
    apis: Alternative,
    standing: Standing,
    notices: Notices,
    pace: Pace,
}

impl Recorder {
    /// One that has not written yet; `instance` is this pod.
    pub(crate) fn new(client: Client, instance: &str, refusals: Arc<Refusals>, standing: Standing) -> Self {
        let (instance, pace) = (instance.to_owned(), Pace::new(BURST, SPACING, Instant::now()));
        let (notices, apis) = (Notices::default(), Alternative::default());
        Self { client, instance, refusals, apis, standing, notices, pace }
    }

    /// Writes until it is given up.
    pub(crate) async fn run(mut self, mut sources: Sources) {
        self.look(&mut sources);
        loop {
            let leads = *sources.role.borrow_and_update() == Role::Leader;
            let due = self.notices.next_due().filter(|_| leads).map(|due| due.max(self.pace.next()));
            tokio::select! {
                () = sources.updates.next() => self.look(&mut sources),
                Ok(()) = sources.contested.changed() => self.look(&mut sources),
                Ok(()) = sources.role.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.write_one(&mut sources).await;
                }
            }
        }
    }

    fn look(&mut self, sources: &mut Sources) {
        if let Some(view) = sources.updates.view() {
            self.notices.look(&view, self.standing.diagnostics(), Instant::now());
        }
    }

    async fn write_one(&mut self, sources: &mut Sources) {
        let Some(due) = self.notices.take(Instant::now()) else { return };
        self.pace.spend(Instant::now());
        let outcome = sources.updates.view().map(|view| view.outcome);
        let uid = outcome.and_then(|outcome| known_uid(&outcome, &due.diagnostic.origin));
        let wrote = tokio::select! {
            wrote = self.write(&due, uid) => wrote,
            // Another may write now.
            Ok(_) = sources.role.wait_for(|role| *role != Role::Leader) => {
                return self.notices.give_back(&due.diagnostic, Instant::now());
            }
        };
        if matches!(wrote, WriteOutcome::Event(_)) {
            self.standing.event_written();
        }
        self.notices.wrote(&due.diagnostic, wrote, Instant::now());
    }

    async fn write(&self, due: &Due, uid: Option<String>) -> WriteOutcome {
        let written = async {
            let uid = match uid {
                Some(uid) => uid,
                None => match self.uid(&due.diagnostic).await? {
                    Some(uid) => uid,
                    None => return Ok(WriteOutcome::Nothing),
                },
            };
            self.say(due, &uid).await.map(WriteOutcome::Event)
        };
        match timeout(PATIENCE, written).await {
            Ok(Ok(wrote)) => wrote,
            Ok(Err(Error::Api(status))) if is_ending(&status) => WriteOutcome::Nothing,
            Ok(Err(Error::Api(status))) if status.is_forbidden() => WriteOutcome::Refused,
            Ok(Err(error)) => {
                tracing::debug!(about = %due.diagnostic.origin, %error, "an Event is not written; tried again");
                WriteOutcome::Failed
            }
            Err(_) => WriteOutcome::Failed,
        }
    }

    /// Writes the Event, or counts on where it is there; gives the count.
    async fn say(&self, due: &Due, uid: &str) -> Result<i32, Error> {
        let event = event(&due.diagnostic, uid, &self.instance, Timestamp::now());
        let name = event.metadata.name.clone().unwrap_or_default();
        if let Some(count) = due.count
            && self.count_on(&name, due, count).await?.is_some()
        {
            return Ok(count.saturating_add(1));
        }
        match self.create(due, &event).await {
            Ok(()) => Ok(1),
            Err(Error::Api(status)) if status.is_already_exists() => {
                // A patch of nothing reads it: there is no other need for the permission to get Events.
                let count = self.patch(&name, due, json!({})).await?.unwrap_or(1);
                self.count_on(&name, due, count).await?;
                Ok(count.saturating_add(1))
            }
            Err(error) => Err(error),
        }
    }

    async fn create(&self, due: &Due, event: &Event) -> Result<(), Error> {
        let post = &PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let namespace = &*namespace(&due.diagnostic);
        let created = self.apis.send(|way| {
            let client = self.client.clone();
            async move {
                match way {
                    Way::Own => Api::namespaced(client, namespace).create(post, event).await.map(drop),
                    Way::IngressNginx => {
                        let api = Api::namespaced(client, namespace);
                        api.create(post, &core_event(event.clone())).await.map(drop)
                    }
                }
            }
        });
        self.permitted("create", due, created.await)
    }

    async fn count_on(&self, name: &str, due: &Due, count: i32) -> Result<Option<i32>, Error> {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(Timestamp::now());
        let series = json!({ "series": { "count": count.saturating_add(1), "lastObservedTime": now } });
        self.patch(name, due, series).await
    }

    /// Patches an Event, and gives how often it was said by then; `None` where it is gone.
    async fn patch(&self, name: &str, due: &Due, patch: Value) -> Result<Option<i32>, Error> {
        let parameters =
            &PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (namespace, patch) = (&*namespace(&due.diagnostic), &Patch::Merge(patch));
        let patched = self.apis.send(|way| {
            let client = self.client.clone();
            async move {
                let count = match way {
                    Way::Own => {
                        let api = Api::<Event>::namespaced(client, namespace);
                        api.patch(name, parameters, patch).await?.series.map(|series| series.count)
                    }
                    Way::IngressNginx => {
                        let api = Api::<CoreEvent>::namespaced(client, namespace);
                        api.patch(name, parameters, patch).await?.series.and_then(|series| series.count)
                    }
                };
                Ok(count.unwrap_or(1))
            }
        });
        match self.permitted("patch", due, patched.await) {
            Ok(count) => Ok(Some(count)),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn permitted<T>(&self, verb: &'static str, due: &Due, answer: Result<T, Error>) -> Result<T, Error> {
        let namespace = namespace(&due.diagnostic);
        let resource = "events.events.k8s.io or events of the core API".into();
        self.refusals.judge(Permit { verb, resource, namespace, lost: LOST }, answer)
    }

    /// The uid of an object, so that `kubectl describe` finds its Events; empty where it may not be read, `None` where
    /// the object is gone.
    async fn uid(&self, it: &Diagnostic) -> Result<Option<String>, Error> {
        let known = KINDS.iter().find(|known| known.name == &*it.origin.kind);
        // An object of the Gateway API that is not known any more is gone.
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
            // Without it the Event is still of use; what is lost by not reading the kind is said by who reads it.
            Err(Error::Api(status)) if status.is_forbidden() => Ok(Some(String::new())),
            Err(error) => Err(error),
        }
    }
}

/// The uid of an object that is known without a question.
fn known_uid(outcome: &Outcome, origin: &Origin) -> Option<String> {
    let key = ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() };
    let uid = match &*origin.kind {
        "Ingress" => outcome.translation.status.get(&key).map(|status| status.uid.to_string()),
        kind => {
            let object = ObjectRef::new(ApiResource::of_gateways(kind)?.kind, key);
            outcome.resources.gateway.metadata(&object)?.uid.clone()
        }
    };
    uid.filter(|uid| !uid.is_empty())
}
