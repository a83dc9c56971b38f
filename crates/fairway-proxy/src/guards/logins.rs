//! Sessions of logged-in users. Only browsers store them, encrypted with keys that all replicas share. To open a
//! session means to decrypt and check it; a worker caches opened sessions for a few minutes.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fairway_model::Logout;
use fairway_routing::LoginCheck;
use fairway_token::login::{CookieParts, EndedSessions, MAX_COOKIE_PARTS, Provider};
use tokio::sync::oneshot;

use super::cache::{CacheTag, ExpiringCache};
use super::documents::{Documents, SharedDocuments};
use super::logouts::{Logouts, NotShared};
use super::refreshes::Refreshes;
use super::tokens::VerifiedToken;
use crate::tls::{SessionTickets, TicketGroup};

/// The maximum time for which a worker remembers an opened session.
const MAX_REMEMBER_TIME: Duration = Duration::from_secs(300);
/// Larger opened sessions are not remembered.
const MAX_SESSION_BYTES: usize = 64 << 10;

/// The maximum number of permits in use per worker. Clients need no login to make Fairway exchange a code or verify a
/// logout, so an attacker could start any number of them.
const MAX_PERMITS: u32 = 64;
/// The time for which a logout is kept after the last session that it ends has expired. Allows for clock differences
/// between replicas, and for replicas that learn of the logout late.
const LOGOUT_MARGIN: Duration = Duration::from_secs(3600);

/// The login state of a worker.
pub(crate) struct Logins {
    /// The metadata of OpenID providers.
    pub(crate) providers: Documents<Provider>,
    pub(crate) refreshes: Refreshes,
    /// The remembered sessions.
    sessions: ExpiringCache<Arc<OpenSession>>,
    pub(crate) logouts: Logouts,
    /// The value of `logouts.changes()` when the remembered sessions were last known to be valid.
    seen_logout_changes: Cell<u64>,
    keys: SessionTickets,
    permits_in_use: Rc<Cell<u32>>,
}

/// A permit to exchange a code or to verify a logout. Dropping it makes it available again.
pub(crate) struct Permit(Rc<Cell<u32>>);

/// An opened, valid session.
pub(crate) struct OpenSession {
    /// The ID token.
    pub(crate) token: Arc<VerifiedToken>,
    /// The `Authorization` header for endpoints, if they get the access token.
    pub(crate) authorization: Option<Box<str>>,
}

/// The purpose of an encrypted value: a value that was encrypted for one purpose cannot be opened for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The state of a login in progress.
    Attempt,
    /// The session of a logged-in user.
    Session,
}

/// A decrypted value.
pub(crate) struct OpenedValue {
    pub(crate) value: Vec<u8>,
    /// Whether the key that encrypted it will soon be retired, so that the value should be encrypted again.
    pub(crate) is_old: bool,
}

impl Logins {
    pub(crate) fn new(
        providers: SharedDocuments<Provider>,
        refreshes: Refreshes,
        keys: SessionTickets,
        logouts: Logouts,
    ) -> Self {
        let sessions = ExpiringCache::with_max_entry_bytes(MAX_SESSION_BYTES);
        Self {
            providers: Documents::new(providers),
            refreshes,
            sessions,
            logouts,
            seen_logout_changes: Cell::default(),
            keys,
            permits_in_use: Rc::default(),
        }
    }

    /// The session in these cookies, if this worker remembers it. Forgets all sessions first if there was a logout.
    pub(crate) fn find(
        &self,
        check: &LoginCheck,
        host: &str,
        cookie: &CookieParts<'_>,
    ) -> Option<Arc<OpenSession>> {
        let changes = self.logouts.changes();
        if self.seen_logout_changes.replace(changes) != changes {
            self.forget();
        }
        self.sessions.find(&self.tag(check, host, cookie))
    }

    /// Remembers a session for at most this time.
    pub(crate) fn remember(
        &self,
        check: &LoginCheck,
        host: &str,
        cookie: &CookieParts<'_>,
        session: Arc<OpenSession>,
        time: Duration,
    ) {
        // An estimate: an opened session holds the tokens and their parsed claims.
        let bytes = 3 * cookie.parts().iter().map(|part| part.len()).sum::<usize>();
        self.sessions.insert(self.tag(check, host, cookie), session, bytes, time.min(MAX_REMEMBER_TIME));
    }

    /// Acquires a permit to exchange a code or to verify a logout; `None` if too many are in use.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let in_use = self.permits_in_use.get();
        (in_use < MAX_PERMITS).then(|| {
            self.permits_in_use.set(in_use + 1);
            Permit(Rc::clone(&self.permits_in_use))
        })
    }

    /// Ends sessions on all replicas; see [`Logouts::end`]. `now` is the time since 1970. Replicas keep the logout
    /// until all sessions that were encrypted before it have expired, and for [`LOGOUT_MARGIN`] longer.
    pub(crate) fn end(
        &self,
        ended: EndedSessions,
        now: Duration,
    ) -> Result<Option<oneshot::Receiver<()>>, NotShared> {
        let expires_at = (now + self.keys.max_login_lifetime() + LOGOUT_MARGIN).as_secs();
        let EndedSessions { id, until_login_at } = ended;
        self.logouts.end(Logout { id, until_login_at, ends: expires_at }, now.as_secs())
    }

    /// Forgets all remembered sessions. The next request of each opens it again.
    pub(crate) fn forget(&self) {
        self.sessions.clear();
    }

    /// Identifies a session in the cache.
    fn tag(&self, check: &LoginCheck, host: &str, cookie: &CookieParts<'_>) -> CacheTag {
        let mut parts = [&[][..]; 2 + MAX_COOKIE_PARTS];
        // An opened session is valid only for the claims and headers that this check configures.
        (parts[0], parts[1]) = (&check.identity, host.as_bytes());
        let count = 2 + cookie.parts().len();
        parts[2..count].copy_from_slice(cookie.parts());
        self.sessions.tag(&parts[..count])
    }

    /// Encrypts a value for a cookie of this host; `None` if the value is too large or there is no key.
    pub(crate) fn seal(
        &self,
        purpose: Purpose,
        check: &LoginCheck,
        host: &str,
        value: &[u8],
    ) -> Option<String> {
        let sealed = self.keys.seal_login(key_group(purpose, check, host), value)?;
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Decrypts a value that [`seal`](Self::seal) encrypted for the same purpose, check and host; `None` for any
    /// other text.
    pub(crate) fn open(
        &self,
        purpose: Purpose,
        check: &LoginCheck,
        host: &str,
        text: &str,
    ) -> Option<OpenedValue> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (value, is_old) = self.keys.open_login(key_group(purpose, check, host), &sealed)?;
        Some(OpenedValue { value, is_old })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn key_group(purpose: Purpose, check: &LoginCheck, host: &str) -> TicketGroup {
    let purpose = match purpose {
        Purpose::Attempt => "attempt",
        Purpose::Session => "session",
    };
    TicketGroup::login(purpose, &check.sessions, host)
}
