//! Follows the Secret with the ticket keys and hands its keys and logouts to the data plane; on the leader, makes and rotates the keys;
//! on every replica, adds the logouts that it was told. Owns when the API server is asked; what it is told is [`super::record`]'s, by the
//! rules of [`super::schedule`].

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

use super::record::{self, Content, KeyRecord};
use super::schedule::Schedule;
use crate::source::fault::Fault;
use crate::source::follow::{Followed, News, Whole};
use crate::status::election::Role;
use crate::status::pauses::growing;
use crate::status::standing::Standing;

/// A request that takes longer has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Somebody who keeps tearing the Secret is answered no more often.
const MIN_INTERVAL: Duration = Duration::from_secs(10);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Somebody waits for logouts.
const LOGOUT_RETRY: Duration = Duration::from_millis(100);
const LONGEST_LOGOUT_RETRY: Duration = Duration::from_secs(2);
/// Logouts that come sooner after others are written together.
const LOGOUT_INTERVAL: Duration = Duration::from_secs(1);
/// How far clocks of replicas may differ, in seconds, before one drops a logout that counts for another.
const TOLERANCE: u64 = 3600;
const OWN_KEYS: &str = "TLS sessions resume only on the replica that began them";

/// Takes the keys that the replicas share now, the newest first.
pub type AdoptTicketKeys = Arc<dyn Fn(&[SharedTicketSecret]) + Send + Sync>;

/// Takes all logouts that the replicas know; those that it knows already come again.
pub type AdoptLogouts = Arc<dyn Fn(&[Logout]) + Send + Sync>;

/// A logout that all replicas shall know.
#[derive(Debug)]
pub struct LogoutNotice {
    /// The logout.
    pub logout: Logout,
    /// Is told that they will, or dropped if they may not.
    pub shared: oneshot::Sender<()>,
}

/// What sharing ticket keys and logouts needs.
#[derive(Clone)]
pub struct TicketDuties {
    /// How often a key is made.
    pub(in crate::status) rotation: Duration,
    /// The data plane.
    pub(in crate::status) adopt: AdoptTicketKeys,
    /// The same for logouts.
    pub(in crate::status) adopt_logouts: AdoptLogouts,
    /// Those of this replica.
    pub(in crate::status) notices: Arc<Mutex<mpsc::Receiver<LogoutNotice>>>,
    /// The clock that the times in the Secret are by.
    pub(in crate::status) wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Keeps the data plane's keys those of the Secret, and on the leader the Secret itself.
pub(in crate::status) struct TicketKeeper {
    client: Client,
    secrets: Api<Secret>,
    key: ObjectKey,
    standing: Standing,
    duties: TicketDuties,
    schedule: Schedule,
    found: Option<Found>,
    /// All logouts that are known, by their ids.
    logouts: BTreeMap<[u8; 16], Logout>,
    /// Who waits until those of this replica are written, and how long.
    waiting: Vec<(oneshot::Sender<()>, Instant)>,
    /// No earlier are they written, and how long that was waited for.
    logouts_from: Instant,
    logouts_pause: Duration,
    /// Writes that failed in a row, and when the next is tried.
    failures: u32,
    retry_at: Option<Instant>,
    /// Whether it was logged that the Secret cannot be read, and that it cannot be written.
    is_unreadable: bool,
    is_unwritable: bool,
}

/// The Secret as it was read last; one that is not there has no metadata.
struct Found {
    metadata: ObjectMeta,
    content: Content,
    logouts: BTreeMap<[u8; 16], Logout>,
}

impl Default for Found {
    fn default() -> Self {
        Self { metadata: ObjectMeta::default(), content: Content::Missing, logouts: BTreeMap::new() }
    }
}

impl Found {
    fn of(mut secret: Secret) -> Self {
        let (content, logouts) = record::read(&mut secret);
        let logouts = logouts.into_iter().map(|logout| (logout.id, logout)).collect();
        Self { metadata: secret.metadata, content, logouts }
    }
}

impl TicketDuties {
    /// A key is made every `rotation`, and `adopt` takes the keys as they are after each change, `adopt_logouts` the logouts. `notices`
    /// are those of this replica.
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

impl fmt::Debug for TicketDuties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketDuties").field("rotation", &self.rotation).finish_non_exhaustive()
    }
}

impl TicketKeeper {
    /// Keeps the keys of the fleet that elects by `election_id` in the namespace of `pod`.
    pub(in crate::status) fn new(
        client: Client,
        pod: &ObjectKey,
        election_id: &str,
        standing: Standing,
        duties: TicketDuties,
    ) -> Self {
        let key = ObjectKey::new(&pod.namespace, &format!("{election_id}-session-tickets"));
        Self {
            secrets: Api::namespaced(client.clone(), &key.namespace),
            client,
            key,
            standing,
            schedule: Schedule::new(duties.rotation),
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

    /// Keeps them until it is given up.
    pub(in crate::status) async fn run(mut self, mut role: watch::Receiver<Role>) {
        let (tell, mut heard) = mpsc::unbounded_channel();
        let (followed, key) = (Followed::<Secret>::default(), self.key.clone());
        let store = followed.clone();
        let watch = followed.follow(self.client.clone(), Secret::one(&self.key), move |news| {
            let seen = match news {
                // Taken out at once, so that its keys are nowhere but where they are overwritten.
                News::Listed | News::Changed => {
                    Ok(store.take(&key).map(|it| Found::of(Arc::unwrap_or_clone(it))))
                }
                News::Failed(fault) => Err(fault),
            };
            // Nobody listens only when both are given up.
            _ = tell.send(seen);
        });
        let mut watch = std::pin::pin!(watch);
        let mut patience = std::pin::pin!(sleep(REQUEST_TIMEOUT));
        let notices = Arc::clone(&self.duties.notices);
        let mut notices = notices.lock().await;
        loop {
            // Who no longer takes part in the election does not lead.
            let leads = role.has_changed().is_ok() && *role.borrow_and_update() == Role::Leader;
            let due = self.due().filter(|_| leads);
            let logouts_due = self.logouts_due(leads);
            tokio::select! {
                () = &mut watch => return,
                Some(seen) = heard.recv() => match seen {
                    Ok(found) => self.take(found.unwrap_or_default()),
                    Err(fault) => self.unreadable(&fault),
                },
                () = &mut patience, if !self.standing.knows_ticket_keys() => self.standing.ticket_keys_known(),
                Ok(()) = role.changed() => {}
                Some(notice) = notices.recv() => {
                    self.note(notice);
                    // One request tells them all.
                    while let Ok(notice) = notices.try_recv() {
                        self.note(notice);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.write().await,
                () = sleep_until(logouts_due.unwrap_or_else(Instant::now)), if logouts_due.is_some() => {
                    self.write_logouts().await;
                }
            }
        }
    }

    /// When the leader writes; `None` while there is nothing to write.
    fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        let due = match self.found.as_ref()?.content {
            Content::Foreign => return None,
            Content::Missing | Content::Empty | Content::Torn(_) => now,
            Content::Keys(_) => now + self.schedule.rotates_in(now),
        };
        Some(self.retry_at.map_or(due, |retry| due.max(retry)))
    }

    fn take(&mut self, found: Found) {
        let Found { metadata, content, logouts } = found;
        if std::mem::take(&mut self.is_unreadable) {
            tracing::info!(secret = %self.key, "the ticket keys of TLS sessions can be read now");
        }
        let (now, wall) = (Instant::now(), (self.duties.wall)());
        if !logouts.is_empty() {
            logouts.values().for_each(|logout| self.know(*logout));
            (self.duties.adopt_logouts)(&logouts.values().copied().collect::<Vec<_>>());
        }
        self.forget_what_is_over(wall);
        // What another replica wrote is no reason to wait any longer.
        self.logouts_pause = LOGOUT_RETRY;
        let keys: Option<&[KeyRecord]> = match &content {
            Content::Keys(keys) => Some(keys),
            // Whoever empties or deletes it wants all tickets to be worthless.
            Content::Empty | Content::Missing => Some(&[]),
            Content::Torn(_) | Content::Foreign => None,
        };
        if let Some(keys) = keys {
            self.schedule.see(keys, now, wall);
            (self.duties.adopt)(&self.schedule.shared(now));
        }
        let problem = match &content {
            Content::Torn(why) => Some(((*why).to_owned(), "the keys from before count until they are over, then own ones")),
            Content::Foreign => Some((
                format!("its type is not {}, so that somebody else has made it", record::TYPE),
                OWN_KEYS,
            )),
            Content::Keys(_) if self.schedule.is_ahead(wall) => Some((
                "data.current was made in the future by the clock of this replica: it is too young to be used".to_owned(),
                "it encrypts no tickets before this replica has known it long enough",
            )),
            Content::Keys(_) | Content::Empty | Content::Missing => None,
        };
        let diagnostic = problem.map(|(problem, consequence)| {
            let origin = Origin::object("Secret", &self.key.namespace, &self.key.name);
            Diagnostic::new(Severity::Warning, "session-ticket-keys", origin).because(problem, consequence)
        });
        self.standing.ticket_keys(diagnostic);
        self.standing.ticket_keys_known();
        self.found = Some(Found { metadata, content, logouts });
    }

    async fn write(&mut self) {
        let Some(Found { metadata, content, .. }) = &self.found else { return };
        let (now, made) = (Instant::now(), (self.duties.wall)());
        let restored = match content {
            Content::Torn(_) => self.schedule.restored(now),
            _ => None,
        };
        let keys = restored.or_else(|| Some(self.schedule.rotated(KeyRecord::new(made)?, now)));
        let Some(keys) = keys else { return };
        let metadata = metadata.clone();
        match self.put(metadata, &keys).await {
            Ok(Ok(written)) => {
                tracing::info!(
                    secret = %self.key, version = written.resource_version(),
                    "made a ticket key for TLS sessions, which all replicas share"
                );
                (self.failures, self.is_unwritable) = (0, false);
                self.retry_at = Some(Instant::now() + MIN_INTERVAL);
                self.take(Found::of(written));
            }
            // Another was faster: the watch knows better.
            Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => self.retry_later(),
            Ok(Err(error)) => self.unwritable(&error.to_string(), is_forbidden(&error)),
            Err(_) => self.unwritable("the API server does not answer", false),
        }
    }

    /// Writes the Secret with these keys and all logouts.
    async fn put(
        &mut self,
        mut metadata: ObjectMeta,
        keys: &[KeyRecord],
    ) -> Result<Result<Secret, Error>, Elapsed> {
        self.forget_what_is_over((self.duties.wall)());
        let is_there = metadata.resource_version.is_some();
        metadata.name = Some(self.key.name.to_string());
        let mut secret = record::write(metadata, keys, self.logouts.values());
        let post = PostParams::default();
        let request = async {
            if is_there {
                self.secrets.replace(&self.key.name, &post, &secret).await
            } else {
                self.secrets.create(&post, &secret).await
            }
        };
        let written = timeout(REQUEST_TIMEOUT, request).await;
        record::wipe(&mut secret);
        written
    }

    /// A logout of this replica, which is written next.
    fn note(&mut self, LogoutNotice { logout, shared }: LogoutNotice) {
        self.forget_what_is_over((self.duties.wall)());
        let written = self.found.as_ref().and_then(|found| found.logouts.get(&logout.id));
        let is_written = written.is_some_and(|written| {
            written.until_login_at >= logout.until_login_at && written.ends + TOLERANCE >= logout.ends
        });
        if is_written {
            // Whoever waited may have gone.
            _ = shared.send(());
        } else if self.logouts.len() < record::MAX_LOGOUTS || self.logouts.contains_key(&logout.id) {
            self.know(logout);
            let now = Instant::now();
            self.waiting.push((shared, now + REQUEST_TIMEOUT));
            self.logouts_from = self.logouts_from.min(now + LOGOUT_INTERVAL);
        } else {
            tracing::warn!(
                secret = %self.key,
                "it has {} logouts, and no place for another: a provider is told that its logout failed", record::MAX_LOGOUTS
            );
        }
    }

    fn forget_what_is_over(&mut self, wall: Timestamp) {
        let wall = wall.as_second();
        let ends = |logout: &Logout| i64::try_from(logout.ends.saturating_add(TOLERANCE)).unwrap_or(i64::MAX);
        self.logouts.retain(|_, logout| wall < ends(logout));
    }

    fn know(&mut self, logout: Logout) {
        let known = self.logouts.entry(logout.id).or_insert(logout);
        known.until_login_at = known.until_login_at.max(logout.until_login_at);
        known.ends = known.ends.max(logout.ends);
    }

    /// When logouts are written; `None` where none are new. What somebody has removed from the Secret, the leader restores.
    fn logouts_due(&self, leads: bool) -> Option<Instant> {
        let Some(Found { content: Content::Keys(_), logouts, .. }) = &self.found else {
            // Without keys, nobody has a session that another replica opens; they may still come.
            return self.waiting.first().map(|(_, until)| *until);
        };
        let lacks_some = || leads && self.logouts.keys().any(|id| !logouts.contains_key(id));
        (!self.waiting.is_empty() || lacks_some()).then_some(self.logouts_from)
    }

    async fn write_logouts(&mut self) {
        let now = Instant::now();
        self.waiting.retain(|(_, until)| now < *until);
        let Some(Found { metadata, content: Content::Keys(keys), .. }) = &self.found else { return };
        let (metadata, keys) = (metadata.clone(), keys.clone());
        let outcome = self.put(metadata, &keys).await;
        let now = Instant::now();
        match outcome {
            Ok(Ok(written)) => {
                self.is_unwritable = false;
                self.take(Found::of(written));
                self.logouts_from = now + LOGOUT_INTERVAL;
                let waiting = std::mem::take(&mut self.waiting);
                // Else it was not read as it was written.
                if matches!(self.found, Some(Found { content: Content::Keys(_), .. })) {
                    for (shared, _) in waiting {
                        // Whoever waited may have gone.
                        _ = shared.send(());
                    }
                }
            }
            // Another was faster: the watch knows better.
            Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => self.logouts_later(now),
            Ok(Err(error)) => {
                self.logouts_later(now);
                self.cannot_write(&error.to_string(), is_forbidden(&error));
            }
            Err(_) => {
                self.logouts_later(now);
                self.cannot_write("the API server does not answer", false);
            }
        }
    }

    /// Somewhere between half of the pause and all of it, so that replicas that were told at once do not meet again and again.
    fn logouts_later(&mut self, now: Instant) {
        self.logouts_from = now + self.logouts_pause.mul_f64(0.5 + 0.5 * fastrand::f64());
        let longest = if self.waiting.is_empty() { LONGEST_RETRY } else { LONGEST_LOGOUT_RETRY };
        self.logouts_pause = longest.min(self.logouts_pause * 2);
    }

    fn retry_later(&mut self) {
        self.retry_at = Some(Instant::now() + growing(FIRST_RETRY, self.failures, LONGEST_RETRY));
        self.failures = self.failures.saturating_add(1);
    }

    fn unwritable(&mut self, error: &str, is_forbidden: bool) {
        self.retry_later();
        self.cannot_write(error, is_forbidden);
    }

    fn cannot_write(&mut self, error: &str, is_forbidden: bool) {
        if !std::mem::replace(&mut self.is_unwritable, true) {
            report(&self.key, "written", error, is_forbidden);
        }
    }

    fn unreadable(&mut self, fault: &Fault) {
        self.standing.ticket_keys_known();
        if !std::mem::replace(&mut self.is_unreadable, true) {
            report(&self.key, "read", &fault.to_string(), matches!(fault, Fault::Denied(_)));
        }
    }
}

fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.is_forbidden())
}

/// Says that the Secret cannot be read or written. Whoever withholds the permission, as the manifests of ingress-nginx do, decides
/// that replicas share no keys.
fn report(secret: &ObjectKey, done: &str, error: &str, is_forbidden: bool) {
    if is_forbidden {
        tracing::info!(%secret, error, "without permission for the ticket keys of TLS sessions, {OWN_KEYS}");
    } else {
        tracing::warn!(
            %secret, error,
            "the ticket keys of TLS sessions cannot be {done}; tried again, until then {OWN_KEYS}, and no provider can end sessions on all of them"
        );
    }
}
