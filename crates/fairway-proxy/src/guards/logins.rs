//! Sessions of users who have logged in. Only their browsers have them, encrypted with keys that all replicas share; a worker remembers
//! for a while which it has opened.

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

use super::documents::{Documents, Shared};
use super::kept::{Kept, Tag};
use super::logouts::{Logouts, NotShared};
use super::refreshes::Refreshes;
use super::tokens::VerifiedToken;
use crate::tls::{Group, SessionTickets};

/// How long an opened session is remembered at most.
const MAX_MEMORY: Duration = Duration::from_secs(300);
/// The most memory of one session.
const MAX_SESSION_MEMORY: usize = 64 << 10;

/// How many codes a worker exchanges, and logouts it reads, at the same time: anybody can send one that is none.
const MAX_EXCHANGES: u32 = 64;
/// See [`Logins::end`].
const SETTLING: Duration = Duration::from_secs(3600);

/// What a worker knows of logins.
pub(crate) struct Logins {
    pub(crate) providers: Documents<Provider>,
    pub(crate) refreshes: Refreshes,
    sessions: Kept<Arc<OpenSession>>,
    pub(crate) logouts: Logouts,
    /// The changes of these that remembered sessions know of.
    seen: Cell<u64>,
    keys: SessionTickets,
    exchanges: Rc<Cell<u32>>,
}

/// The right to exchange a code or to read a logout, until it is dropped.
pub(crate) struct Permit(Rc<Cell<u32>>);

/// A session that was opened and holds.
pub(crate) struct OpenSession {
    /// What the ID token says.
    pub(crate) token: Arc<VerifiedToken>,
    /// `Authorization` for endpoints, where they get the access token.
    pub(crate) authorization: Option<Box<str>>,
}

/// What a value is encrypted for: no other one opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A login that has begun.
    Attempt,
    /// A session.
    Session,
}

/// A value that was opened.
pub(crate) struct OpenedValue {
    pub(crate) value: Vec<u8>,
    /// Whether its key will soon be worth nothing.
    pub(crate) is_old: bool,
}

impl Logins {
    pub(crate) fn new(
        providers: Shared<Provider>,
        refreshes: Refreshes,
        keys: SessionTickets,
        logouts: Logouts,
    ) -> Self {
        let sessions = Kept::up_to(MAX_SESSION_MEMORY);
        let (exchanges, seen) = (Rc::default(), Cell::default());
        let providers = Documents::new(providers);
        Self { providers, refreshes, sessions, logouts, seen, keys, exchanges }
    }

    /// The session in these cookies, if it was opened before and nothing has to be done for it.
    pub(crate) fn find(
        &self,
        check: &LoginCheck,
        host: &str,
        cookie: &CookieParts<'_>,
    ) -> Option<Arc<OpenSession>> {
        let changes = self.logouts.changes();
        if self.seen.replace(changes) != changes {
            self.forget();
        }
        self.sessions.find(&self.tag(check, host, cookie))
    }

    /// Remembers a session for a while.
    pub(crate) fn remember(
        &self,
        check: &LoginCheck,
        host: &str,
        cookie: &CookieParts<'_>,
        session: Arc<OpenSession>,
        time: Duration,
    ) {
        let bytes = 3 * cookie.parts().iter().map(|part| part.len()).sum::<usize>();
        self.sessions.keep(self.tag(check, host, cookie), session, bytes, time.min(MAX_MEMORY));
    }

    /// The right to exchange a code or to read a logout; `None` while there are too many.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let under_way = self.exchanges.get();
        (under_way < MAX_EXCHANGES).then(|| {
            self.exchanges.set(under_way + 1);
            Permit(Rc::clone(&self.exchanges))
        })
    }

    /// Ends sessions on all replicas, at `now` since 1970; see [`Logouts::end`]. They are remembered until nothing that was encrypted before
    /// opens, with an hour for clocks and for replicas that have not heard of it yet.
    pub(crate) fn end(
        &self,
        ended: EndedSessions,
        now: Duration,
    ) -> Result<Option<oneshot::Receiver<()>>, NotShared> {
        let ends = (now + self.keys.longest_login() + SETTLING).as_secs();
        let EndedSessions { id, until_login_at } = ended;
        self.logouts.end(Logout { id, until_login_at, ends }, now.as_secs())
    }

    /// Forgets the sessions, which are opened again.
    pub(crate) fn forget(&self) {
        self.sessions.clear();
    }

    fn tag(&self, check: &LoginCheck, host: &str, cookie: &CookieParts<'_>) -> Tag {
        let mut parts = [&[][..]; 2 + MAX_COOKIE_PARTS];
        // What is remembered was made for the claims and headers of the rule.
        (parts[0], parts[1]) = (&check.identity, host.as_bytes());
        let count = 2 + cookie.parts().len();
        parts[2..count].copy_from_slice(cookie.parts());
        self.sessions.tag(&parts[..count])
    }

    /// Encrypts a value for browsers of this host; `None` where it is too large, or no key is there.
    pub(crate) fn seal(
        &self,
        purpose: Purpose,
        check: &LoginCheck,
        host: &str,
        value: &[u8],
    ) -> Option<String> {
        let sealed = self.keys.seal_login(group(purpose, check, host), value)?;
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens what [`seal`](Self::seal) made for the same.
    pub(crate) fn open(
        &self,
        purpose: Purpose,
        check: &LoginCheck,
        host: &str,
        text: &str,
    ) -> Option<OpenedValue> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (value, is_old) = self.keys.open_login(group(purpose, check, host), &sealed)?;
        Some(OpenedValue { value, is_old })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn group(purpose: Purpose, check: &LoginCheck, host: &str) -> Group {
    let purpose = match purpose {
        Purpose::Attempt => "attempt",
        Purpose::Session => "session",
    };
    Group::login(purpose, &check.sessions, host)
}
