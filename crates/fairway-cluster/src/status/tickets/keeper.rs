//! Follows the Secret with the ticket keys and hands its keys to the data plane; on the leader, makes and rotates them. Owns when
//! the API server is asked; what it is told is [`super::record`]'s, by the rules of [`super::schedule`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Origin, SharedTicketSecret};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, Error, ResourceExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

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
const OWN_KEYS: &str = "TLS sessions resume only on the replica that began them";

/// Takes the keys that the replicas share now, the newest first.
pub type AdoptTicketKeys = Arc<dyn Fn(&[SharedTicketSecret]) + Send + Sync>;

/// What sharing ticket keys needs.
#[derive(Clone)]
pub struct TicketDuties {
    /// How often a key is made.
    pub(in crate::status) rotation: Duration,
    /// The data plane.
    pub(in crate::status) adopt: AdoptTicketKeys,
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
}

impl Default for Found {
    fn default() -> Self {
        Self { metadata: ObjectMeta::default(), content: Content::Missing }
    }
}

impl Found {
    fn of(mut secret: Secret) -> Self {
        let content = record::read(&mut secret);
        Self { metadata: secret.metadata, content }
    }
}

impl TicketDuties {
    /// A key is made every `rotation`, and `adopt` takes the keys as they are after each change.
    #[must_use]
    pub fn new(rotation: Duration, adopt: AdoptTicketKeys) -> Self {
        Self { rotation, adopt, wall: Arc::new(Timestamp::now) }
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
        loop {
            let due = self.due().filter(|_| *role.borrow_and_update() == Role::Leader);
            tokio::select! {
                () = &mut watch => return,
                Some(seen) = heard.recv() => match seen {
                    Ok(found) => self.take(found.unwrap_or_default()),
                    Err(fault) => self.unreadable(&fault),
                },
                Ok(()) = role.changed() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.write().await,
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
        let Found { metadata, content } = found;
        if std::mem::take(&mut self.is_unreadable) {
            tracing::info!(secret = %self.key, "the ticket keys of TLS sessions can be read now");
        }
        let (now, wall) = (Instant::now(), (self.duties.wall)());
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
        self.found = Some(Found { metadata, content });
    }

    async fn write(&mut self) {
        let Some(Found { metadata, content }) = &self.found else { return };
        let (now, made) = (Instant::now(), (self.duties.wall)());
        let restored = match content {
            Content::Torn(_) => self.schedule.restored(now),
            _ => None,
        };
        let keys = restored.or_else(|| Some(self.schedule.rotated(KeyRecord::new(made)?, now)));
        let Some(keys) = keys else { return };
        let is_there = metadata.resource_version.is_some();
        let mut metadata = metadata.clone();
        metadata.name = Some(self.key.name.to_string());
        let mut secret = record::write(metadata, &keys);
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
        match written {
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

    fn retry_later(&mut self) {
        self.retry_at = Some(Instant::now() + growing(FIRST_RETRY, self.failures, LONGEST_RETRY));
        self.failures = self.failures.saturating_add(1);
    }

    fn unwritable(&mut self, error: &str, is_forbidden: bool) {
        self.retry_later();
        if !std::mem::replace(&mut self.is_unwritable, true) {
            report(&self.key, "written", error, is_forbidden);
        }
    }

    fn unreadable(&mut self, fault: &Fault) {
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
        tracing::warn!(%secret, error, "the ticket keys of TLS sessions cannot be {done}; tried again, until then {OWN_KEYS}");
    }
}
