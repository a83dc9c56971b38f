//! Carries out what [`Objects`] says: reads and replaces the status of objects of the Gateway API, a few at a time, while this
//! replica leads. Owns no decision about what is written; most of what is due is found to be there already without a request.

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
use super::objects::{Objects, Said};
use super::observed::FIELD_MANAGER;
use super::pace::Pace;
use super::permission::{Permit, Refusals};
use super::replacements::Before;
use super::standing::{Standing, StatusOf};
use super::statement::{Owed, Says, last_writer};
use super::updates::Updates;

/// Requests at a time.
const AT_ONCE: usize = 16;
/// Objects whose status is compared with what it should say, one after the other.
const LOOKED_AT_TOGETHER: usize = 1_000;
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Fights are told so long after something may be different: that costs what there is to say of all of them.
const TELL: Duration = Duration::from_secs(1);
/// While there are some, they are looked at so often: they end without an event.
const TELL_AGAIN: Duration = Duration::from_secs(60);
const LOST: &str = "the status of objects of the Gateway API there does not say what became of them";

/// In which version a kind of the Gateway API is asked for.
pub type Versions = Arc<dyn Fn(Kind) -> Option<&'static str> + Send + Sync>;

/// What the statuses should say, by a view.
pub(crate) type Statuses<S> = Box<dyn Fn(&View) -> OrdMap<ObjectRef, Arc<S>> + Send>;

/// Writes the status of objects of the Gateway API.
pub(crate) struct ObjectWriter<S> {
    client: Client,
    refusals: Arc<Refusals>,
    standing: Standing,
    versions: Versions,
    statuses: Statuses<S>,
    objects: Objects<S>,
    resources: Resources,
    pace: Pace,
    /// When the fights are told.
    tell: Option<Instant>,
    running: FuturesUnordered<BoxFuture<'static, (ObjectRef, Said)>>,
}

impl<S: Says> ObjectWriter<S> {
    /// One that has not written yet.
    pub(crate) fn new(
        client: Client,
        refusals: Arc<Refusals>,
        standing: Standing,
        versions: Versions,
        statuses: Statuses<S>,
    ) -> Self {
        Self {
            client,
            refusals,
            standing,
            versions,
            statuses,
            objects: Objects::new(),
            resources: Resources::default(),
            pace: Pace::of_statuses(Instant::now()),
            tell: None,
            running: FuturesUnordered::new(),
        }
    }

    /// Writes until it is given up.
    pub(crate) async fn run(mut self, mut updates: Updates, mut role: watch::Receiver<Role>) {
        self.look(&mut updates);
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
            let due = self.objects.next_due().filter(|_| leads && self.running.len() < AT_ONCE);
            let due = due.map(|due| due.max(self.pace.next()));
            let tell = self.tell;
            tokio::select! {
                Some((object, said)) = self.running.next(), if !self.running.is_empty() => {
                    self.done(&object, said);
                }
                () = updates.next() => self.look(&mut updates),
                Ok(()) = role.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                () = sleep_until(tell.unwrap_or_else(Instant::now)), if tell.is_some() => {
                    self.tell_contests();
                }
            }
        }
    }

    /// Another may write while this replica does not lead, or wrote while it did not.
    fn change_role(&mut self, leads: bool) {
        self.running.clear();
        self.objects.forget_contests();
        self.tell_contests();
        if leads {
            self.objects.look_at_all(Instant::now());
        }
    }

    fn tell_soon(&mut self) {
        let soon = Instant::now() + TELL;
        self.tell = Some(self.tell.map_or(soon, |at| at.min(soon)));
    }

    fn tell_contests(&mut self) {
        let now = Instant::now();
        let contested = self.objects.contested(now);
        self.tell = if contested.is_empty() { None } else { Some(now + TELL_AGAIN) };
        self.standing.contests(StatusOf::GatewayApi, contested);
    }

    fn look(&mut self, updates: &mut Updates) {
        if let Some(view) = updates.view() {
            self.objects.want(&(self.statuses)(&view), Instant::now());
            self.resources = view.outcome.resources;
        }
        // Objects may be gone, and fights over.
        self.tell_soon();
    }

    fn start_jobs(&mut self) {
        // A new leader looks at all objects: others have their turn in between.
        for _ in 0..LOOKED_AT_TOGETHER {
            if self.running.len() >= AT_ONCE || !self.pace.permits(Instant::now()) {
                return;
            }
            let Some((object, status)) = self.objects.take(Instant::now()) else { return };
            let known = self.resources.gateway.status(&object);
            if known.is_some_and(|known| status.owed(&known, clock::unix_seconds()).is_none()) {
                self.objects.done(&object, Said::Nothing, Instant::now());
                continue;
            }
            let version = (self.versions)(object.kind);
            let Some(path) = path(&object, version) else {
                self.objects.done(&object, Said::Nothing, Instant::now());
                continue;
            };
            self.pace.spend(Instant::now());
            let before = self.objects.before(&object);
            let (client, refusals) = (self.client.clone(), self.refusals.clone());
            let job = Job { client, refusals, path, status, before };
            self.running.push(Box::pin(job.run(object)));
        }
    }

    fn done(&mut self, object: &ObjectRef, said: Said) {
        match &said {
            Said::Written(_) => self.standing.status_written(),
            Said::Refused | Said::Failed => self.standing.status_failed(),
            Said::Replaced(_) => self.tell_soon(),
            Said::Nothing | Said::Conflict => {}
        }
        self.objects.done(object, said, Instant::now());
    }
}

/// The path of the object, without `/status`.
fn path(object: &ObjectRef, version: Option<&'static str>) -> Option<String> {
    let known = object.kind.of_gateways()?;
    let version = version.or(known.versions.first().copied())?;
    Some(known.path(version, &object.key.namespace, &object.key.name))
}

/// One status under way.
struct Job<S> {
    client: Client,
    refusals: Arc<Refusals>,
    path: String,
    status: Arc<S>,
    before: Before,
}

impl<S: Says> Job<S> {
    async fn run(self, object: ObjectRef) -> (ObjectRef, Said) {
        let said = match timeout(PATIENCE, self.say(&object)).await {
            Ok(Ok(said)) => said,
            Ok(Err(Error::Api(status))) if status.is_forbidden() => Said::Refused,
            Ok(Err(Error::Api(status))) if status.is_conflict() => Said::Conflict,
            Ok(Err(Error::Api(status))) if status.is_not_found() => Said::Nothing,
            Ok(Err(error)) => {
                tracing::debug!(path = self.path, %error, "status; tried again");
                Said::Failed
            }
            Err(_) => Said::Failed,
        };
        (object, said)
    }

    /// What is there is read first, as it is written: entries of others must stay byte for byte, and what is known here has only
    /// the fields that this version knows.
    async fn say(&self, object: &ObjectRef) -> Result<Said, Error> {
        let get = Request::get(&self.path).body(Vec::new()).map_err(Error::HttpError)?;
        let mut found: Value = self.ask("get", object, get).await?;
        if !self.is_about(&found) {
            return Ok(Said::Nothing);
        }
        let Some(Owed { status, differing }) = self.owed(&found) else { return Ok(Said::Nothing) };
        if self.before.is_replaced(&differing) {
            return Ok(Said::Replaced(last_writer(&found)));
        }
        found["status"] = status;
        let uri = format!("{}/status?fieldManager={FIELD_MANAGER}", self.path);
        let put = Request::put(uri).header(http::header::CONTENT_TYPE, "application/json");
        let put = put.body(found.to_string().into_bytes()).map_err(Error::HttpError)?;
        let written = self.ask("update", object, put).await?;
        Ok(Said::Written(self.owed(&written).map(|owed| owed.differing).unwrap_or_default()))
    }

    fn owed(&self, object: &Value) -> Option<Owed> {
        self.status.owed(&object["status"], clock::unix_seconds())
    }

    /// Whether the status was made for this object as it is now; if not, another one is on its way.
    fn is_about(&self, found: &Value) -> bool {
        let uid = found.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let generation = found.pointer("/metadata/generation").and_then(Value::as_i64);
        uid == self.status.uid() && generation == self.status.generation()
    }

    async fn ask(
        &self,
        verb: &'static str,
        object: &ObjectRef,
        request: Request<Vec<u8>>,
    ) -> Result<Value, Error> {
        let answer = self.client.request(request).await;
        let subresource = if verb == "get" { "" } else { "/status" };
        let resource =
            object.kind.api().map(|known| known.group_resource(subresource)).unwrap_or_default().into();
        let permit = Permit { verb, resource, namespace: object.key.namespace.clone(), lost: LOST };
        self.refusals.judge(permit, answer)
    }
}
