//! Follows the Secret with the ticket keys and passes its keys and logouts to the data plane. The leader creates and rotates the
//! keys; every replica adds its own logouts. Decides when the API server is contacted; [`super::record`] decodes the Secret,
//! [`super::schedule`] has the rules for keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Logout, Origin, SharedTicketSecret};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, Error, ResourceExt};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::record::{self, KeyRecord, SecretContent};
use super::schedule::KeySchedule;
use crate::source::fault::Fault;
use crate::source::object_store::{FullObject, ObjectStore, StoreEvent};
use crate::status::election::Role;
use crate::status::pauses::doubled_pause;
use crate::status::shared_state::ReporterState;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// A damaged Secret is restored no more often than this.
const MIN_INTERVAL: Duration = Duration::from_secs(10);
const MAX_RETRY: Duration = Duration::from_secs(60);
/// Callers wait for logouts to be shared.
const LOGOUT_RETRY: Duration = Duration::from_millis(100);
const MAX_LOGOUT_RETRY: Duration = Duration::from_secs(2);
/// Logouts within this interval are written together.
const LOGOUT_INTERVAL: Duration = Duration::from_secs(1);
/// How far clocks of replicas may differ, in seconds, before one drops a logout that is still valid for another.
const CLOCK_TOLERANCE_SECONDS: u64 = 3600;
const WITHOUT_SHARED_KEYS: &str = "TLS sessions resume only on the replica that began them";

/// Receives the keys that the replicas share, newest first.
pub type AdoptTicketKeys = Arc<dyn Fn(&[SharedTicketSecret]) + Send + Sync>;

/// Receives all known logouts; known ones may come again.
pub type AdoptLogouts = Arc<dyn Fn(&[Logout]) + Send + Sync>;

/// A logout that all replicas must learn of.
#[derive(Debug)]
pub struct LogoutNotice {
    /// The logout.
    pub logout: Logout,
    /// Notified when the logout is shared; dropped if it may not be.
    pub shared: oneshot::Sender<()>,
}

/// How ticket keys and logouts are shared.
#[derive(Clone)]
pub struct TicketOptions {
    /// How often a key is created.
    pub(in crate::status) rotation: Duration,
    /// Passes keys to the data plane.
    pub(in crate::status) adopt: AdoptTicketKeys,
    /// Passes logouts to the data plane.
    pub(in crate::status) adopt_logouts: AdoptLogouts,
    /// The logouts of this replica.
    pub(in crate::status) notices: Arc<Mutex<mpsc::Receiver<LogoutNotice>>>,
    /// The wall clock for times in the Secret.
    pub(in crate::status) wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Keeps the data plane's keys equal to those in the Secret, and on the leader keeps the Secret itself.
pub(in crate::status) struct TicketKeeper {
    client: Client,
    secrets: Api<Secret>,
    key: ObjectKey,
    standing: ReporterState,
    duties: TicketOptions,
    schedule: KeySchedule,
    found: Option<ReadSecret>,
    /// All known logouts, by id.
    logouts: BTreeMap<[u8; 16], Logout>,
    /// Callers that wait until this replica's logouts are written, and since when.
    waiting: Vec<(oneshot::Sender<()>, Instant)>,
    /// The earliest time of the next write of logouts, and the last pause.
    logouts_from: Instant,
    logouts_pause: Duration,
    /// Consecutive failed writes, and the time of the next try.
    failures: u32,
    retry_at: Option<Instant>,
    /// Whether it was logged that the Secret cannot be read or written.
    is_unreadable: bool,
    is_unwritable: bool,
}

/// The Secret as last read; without metadata if it does not exist.
struct ReadSecret {
    metadata: ObjectMeta,
    content: SecretContent,
    logouts: BTreeMap<[u8; 16], Logout>,
}

impl Default for ReadSecret {
    fn default() -> Self {
        Self { metadata: ObjectMeta::default(), content: SecretContent::Missing, logouts: BTreeMap::new() }
    }
}

impl ReadSecret {
    fn from_secret(mut secret: Secret) -> Self {
        let (content, logouts) = record::decode_secret(&mut secret);
        let logouts = logouts.into_iter().map(|logout| (logout.id, logout)).collect();
        Self { metadata: secret.metadata, content, logouts }
    }
}

impl TicketOptions {
    /// Creates a key every `rotation`; `adopt` receives the keys after each change, `adopt_logouts` the logouts. `notices` are
    /// the logouts of this replica.
    #[must_use]
    pub fn new(
        rotation: Duration,
        adopt: AdoptTicketKeys,
        adopt_logouts: AdoptLogouts,
        notices: mpsc::Receiver<LogoutNotice>,
    ) -> Self {
        let (notices, wall) = (Arc::new(Mutex::new(notices)), Arc::new(Timestamp::now));
        Self { rotation, adopt, adopt_logouts, notices, wall }
    }
}

impl fmt::Debug for TicketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketDuties").field("rotation", &self.rotation).finish_non_exhaustive()
    }
}

impl TicketKeeper {
    /// For the fleet that elects by `election_id` in the namespace of `pod`.
    pub(in crate::status) fn new(
        client: Client,
        pod: &ObjectKey,
        election_id: &str,
        standing: ReporterState,
        duties: TicketOptions,
    ) -> Self {
        let key = ObjectKey::new(&pod.namespace, &format!("{election_id}-session-tickets"));
        Self {
            secrets: Api::namespaced(client.clone(), &key.namespace),
            client,
            key,
            standing,
            schedule: KeySchedule::new(duties.rotation),
            duties,
            found: None,
            logouts: BTreeMap::new(),
            waiting: Vec::new(),
            logouts_from: Instant::now(),
            logouts_pause: LOGOUT_RETRY,
            failures: 0,
            retry_at: None,
            is_unreadable: false,
            is_unwritable: false,
        }
    }

    /// Runs until it is dropped.
    pub(in crate::status) async fn run(mut self, mut role: watch::Receiver<Role>) {
        let (tell, mut heard) = mpsc::unbounded_channel();
        let (followed, key) = (ObjectStore::<Secret>::default(), self.key.clone());
        let store = followed.clone();
        let watch = followed.run(self.client.clone(), Secret::one(&self.key), move |news| {
            let keys = match news {
                // Taken out at once, so that key material exists only where it is wiped.
                StoreEvent::Listed | StoreEvent::Changed => {
                    Ok(store.remove(&key).map(|it| ReadSecret::from_secret(Arc::unwrap_or_clone(it))))
                }
                StoreEvent::Failed(fault) => Err(fault),
            };
            // The receiver is gone only when both are dropped.
            _ = tell.send(keys);
        });
        let mut watch = std::pin::pin!(watch);
        let mut patience = std::pin::pin!(sleep(REQUEST_TIMEOUT));
        let notices = Arc::clone(&self.duties.notices);
        let mut notices = notices.lock().await;
        loop {
            // A replica that has left the election does not lead.
            let leads = role.has_changed().is_ok() && *role.borrow_and_update() == Role::Leader;
            let due = self.next_write_at().filter(|_| leads);
            let logouts_due = self.logout_write_at(leads);
            tokio::select! {
                () = &mut watch => return,
                Some(seen) = heard.recv() => match seen {
                    Ok(found) => self.handle_secret(found.unwrap_or_default()),
                    Err(fault) => self.report_unreadable(&fault),
                },
                () = &mut patience, if !self.standing.knows_ticket_keys() => self.standing.set_ticket_keys_known(),
                Ok(()) = role.changed() => {}
                Some(notice) = notices.recv() => {
                    self.add_local_logout(notice);
                    // One request writes all of them.
                    while let Ok(notice) = notices.try_recv() {
                        self.add_local_logout(notice);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.write_keys().await,
                () = sleep_until(logouts_due.unwrap_or_else(Instant::now)), if logouts_due.is_some() => {
                    self.write_logouts().await;
                }
            }
        }
    }

    /// When the leader writes next; `None` if there is nothing to write.
    fn next_write_at(&self) -> Option<Instant> {
        let now = Instant::now();
        let due = match self.found.as_ref()?.content {
            SecretContent::Foreign => return None,
            SecretContent::Missing | SecretContent::Empty | SecretContent::Malformed(_) => now,
            SecretContent::Keys(_) => now + self.schedule.time_to_rotation(now),
        };
        Some(self.retry_at.map_or(due, |retry| due.max(retry)))
    }

    fn handle_secret(&mut self, found: ReadSecret) {
        let ReadSecret { metadata, content, logouts } = found;
        if std::mem::take(&mut self.is_unreadable) {
            tracing::info!(secret = %self.key, "the ticket keys of TLS sessions can be read now");
        }
        let (now, wall) = (Instant::now(), (self.duties.wall)());
        if !logouts.is_empty() {
            logouts.values().for_each(|logout| self.merge_logout(*logout));
            (self.duties.adopt_logouts)(&logouts.values().copied().collect::<Vec<_>>());
        }
        self.drop_expired_logouts(wall);
        // A write of another replica is no reason to wait longer.
        self.logouts_pause = LOGOUT_RETRY;
        let keys: Option<&[KeyRecord]> = match &content {
            SecretContent::Keys(keys) => Some(keys),
            // Emptying or deleting the Secret means that all tickets must become worthless.
            SecretContent::Empty | SecretContent::Missing => Some(&[]),
            SecretContent::Malformed(_) | SecretContent::Foreign => None,
        };
        if let Some(keys) = keys {
            self.schedule.set_keys(keys, now, wall);
            (self.duties.adopt)(&self.schedule.shared_secrets(now));
        }
        let problem = match &content {
            SecretContent::Malformed(why) => Some(((*why).to_owned(), "the previous keys stay valid until they expire, then each replica uses its own")),
            SecretContent::Foreign => Some((
                format!("its type is not {}, so it belongs to another program", record::SECRET_TYPE),
                WITHOUT_SHARED_KEYS,
            )),
            SecretContent::Keys(_) if self.schedule.is_newest_from_future(wall) => Some((
                "data.current was made in the future by the clock of this replica: it is too young to be used".to_owned(),
                "it encrypts no tickets until this replica has known it long enough",
            )),
            SecretContent::Keys(_) | SecretContent::Empty | SecretContent::Missing => None,
        };
        let diagnostic = problem.map(|(problem, consequence)| {
            let origin = Origin::object("Secret", &self.key.namespace, &self.key.name);
            Diagnostic::new(Severity::Warning, "session-ticket-keys", origin).because(problem, consequence)
        });
        self.standing.set_ticket_key_problem(diagnostic);
        self.standing.set_ticket_keys_known();
        self.found = Some(ReadSecret { metadata, content, logouts });
    }

    async fn write_keys(&mut self) {
        let Some(ReadSecret { metadata, content, .. }) = &self.found else { return };
        let (now, made) = (Instant::now(), (self.duties.wall)());
        let restored = match content {
            SecretContent::Malformed(_) => self.schedule.restored_keys(now),
            _ => None,
        };
        let keys = restored.or_else(|| Some(self.schedule.rotated_keys(KeyRecord::new(made)?, now)));
        let Some(keys) = keys else { return };
        let metadata = metadata.clone();
        match self.put_secret(metadata, &keys).await {
            Ok(Ok(written)) => {
                tracing::info!(
                    secret = %self.key, version = written.resource_version(),
                    "created a ticket key for TLS sessions, which all replicas share"
                );
                (self.failures, self.is_unwritable) = (0, false);
                self.retry_at = Some(Instant::now() + MIN_INTERVAL);
                self.handle_secret(ReadSecret::from_secret(written));
            }
            // Another replica was faster: the watch will show its write.
            Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => self.schedule_retry(),
            Ok(Err(error)) => self.report_unwritable(&error.to_string(), is_forbidden(&error)),
            Err(_) => self.report_unwritable("the API server does not answer", false),
        }
    }

    /// Writes the Secret with these keys and all logouts.
    async fn put_secret(
        &mut self,
        mut metadata: ObjectMeta,
        keys: &[KeyRecord],
    ) -> Result<Result<Secret, Error>, Elapsed> {
        self.drop_expired_logouts((self.duties.wall)());
        let is_there = metadata.resource_version.is_some();
        metadata.name = Some(self.key.name.to_string());
        let mut secret = record::encode_secret(metadata, keys, self.logouts.values());
        let post = PostParams::default();
        let request = async {
            if is_there {
                self.secrets.replace(&self.key.name, &post, &secret).await
            } else {
                self.secrets.create(&post, &secret).await
            }
        };
        let written = timeout(REQUEST_TIMEOUT, request).await;
        record::wipe_keys(&mut secret);
        written
    }

    /// Adds a logout of this replica, to be written next.
    fn add_local_logout(&mut self, LogoutNotice { logout, shared }: LogoutNotice) {
        self.drop_expired_logouts((self.duties.wall)());
        let written = self.found.as_ref().and_then(|found| found.logouts.get(&logout.id));
        let is_written = written.is_some_and(|written| {
            written.until_login_at >= logout.until_login_at
                && written.ends + CLOCK_TOLERANCE_SECONDS >= logout.ends
        });
        if is_written {
            // The caller may be gone.
            _ = shared.send(());
        } else if self.logouts.len() < record::MAX_LOGOUTS || self.logouts.contains_key(&logout.id) {
            self.merge_logout(logout);
            let now = Instant::now();
            self.waiting.push((shared, now + REQUEST_TIMEOUT));
            self.logouts_from = self.logouts_from.min(now + LOGOUT_INTERVAL);
        } else {
            tracing::warn!(
                secret = %self.key,
                "it has {} logouts, and no room for another: the provider gets an error", record::MAX_LOGOUTS
            );
        }
    }

    fn drop_expired_logouts(&mut self, wall: Timestamp) {
        let wall = wall.as_second();
        let ends = |logout: &Logout| {
            i64::try_from(logout.ends.saturating_add(CLOCK_TOLERANCE_SECONDS)).unwrap_or(i64::MAX)
        };
        self.logouts.retain(|_, logout| wall < ends(logout));
    }

    fn merge_logout(&mut self, logout: Logout) {
        let known = self.logouts.entry(logout.id).or_insert(logout);
        known.until_login_at = known.until_login_at.max(logout.until_login_at);
        known.ends = known.ends.max(logout.ends);
    }

    /// When logouts are written; `None` if there are no new ones. The leader restores logouts that were removed from the Secret.
    fn logout_write_at(&self, leads: bool) -> Option<Instant> {
        let Some(ReadSecret { content: SecretContent::Keys(_), logouts, .. }) = &self.found else {
            // Without keys, no session is valid on another replica; keys may still come.
            return self.waiting.first().map(|(_, until)| *until);
        };
        let lacks_some = || leads && self.logouts.keys().any(|id| !logouts.contains_key(id));
        (!self.waiting.is_empty() || lacks_some()).then_some(self.logouts_from)
    }

    async fn write_logouts(&mut self) {
        let now = Instant::now();
        self.waiting.retain(|(_, until)| now < *until);
        let Some(ReadSecret { metadata, content: SecretContent::Keys(keys), .. }) = &self.found else {
            return;
        };
        let (metadata, keys) = (metadata.clone(), keys.clone());
        let outcome = self.put_secret(metadata, &keys).await;
        let now = Instant::now();
        match outcome {
            Ok(Ok(written)) => {
                self.is_unwritable = false;
                self.handle_secret(ReadSecret::from_secret(written));
                self.logouts_from = now + LOGOUT_INTERVAL;
                let waiting = std::mem::take(&mut self.waiting);
                // Otherwise the Secret was not read back as it was written.
                if matches!(self.found, Some(ReadSecret { content: SecretContent::Keys(_), .. })) {
                    for (shared, _) in waiting {
                        // The caller may be gone.
                        _ = shared.send(());
                    }
                }
            }
            // Another replica was faster: the watch will show its write.
            Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => self.delay_logout_write(now),
            Ok(Err(error)) => {
                self.delay_logout_write(now);
                self.report_write_failure(&error.to_string(), is_forbidden(&error));
            }
            Err(_) => {
                self.delay_logout_write(now);
                self.report_write_failure("the API server does not answer", false);
            }
        }
    }

    /// Between half of the pause and all of it, so that replicas with simultaneous logouts do not collide repeatedly.
    fn delay_logout_write(&mut self, now: Instant) {
        self.logouts_from = now + self.logouts_pause.mul_f64(0.5 + 0.5 * fastrand::f64());
        let longest = if self.waiting.is_empty() { MAX_RETRY } else { MAX_LOGOUT_RETRY };
        self.logouts_pause = longest.min(self.logouts_pause * 2);
    }

    fn schedule_retry(&mut self) {
        self.retry_at = Some(Instant::now() + doubled_pause(FIRST_RETRY, self.failures, MAX_RETRY));
        self.failures = self.failures.saturating_add(1);
    }

    fn report_unwritable(&mut self, error: &str, is_forbidden: bool) {
        self.schedule_retry();
        self.report_write_failure(error, is_forbidden);
    }

    fn report_write_failure(&mut self, error: &str, is_forbidden: bool) {
        if !std::mem::replace(&mut self.is_unwritable, true) {
            log_failure(&self.key, "written", error, is_forbidden);
        }
    }

    fn report_unreadable(&mut self, fault: &Fault) {
        self.standing.set_ticket_keys_known();
        if !std::mem::replace(&mut self.is_unreadable, true) {
            log_failure(&self.key, "read", &fault.to_string(), matches!(fault, Fault::Denied(_)));
        }
    }
}

fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.is_forbidden())
}

/// Logs that the Secret cannot be read or written. Withholding the permission, as the manifests of ingress-nginx do, means that
/// replicas share no keys.
fn log_failure(secret: &ObjectKey, done: &str, error: &str, is_forbidden: bool) {
    if is_forbidden {
        tracing::info!(%secret, error, "without permission for the ticket keys of TLS sessions, {WITHOUT_SHARED_KEYS}");
    } else {
        tracing::warn!(
            %secret, error,
            "the ticket keys of TLS sessions cannot be {done}; retrying, until then {WITHOUT_SHARED_KEYS}, and no provider can end sessions on all of them"
        );
    }
}
