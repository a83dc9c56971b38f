//! The guards of a rule that authenticate the client: an external service, a password, a token, an API key or a login.
//! Only compiled here; the data plane runs them.

use std::cell::RefCell;
use std::sync::Arc;

use fairway_http::Known;
use fairway_model::{
    AccessList, AnyGuard, ApiKeyAuth, AuthService, BackendKey, BasicAuth, ExternalAuth, GrpcAuth, JwtAuth,
    JwtKeys, OidcAuth, PublishedDocument, Timeouts,
};
use fairway_token::{Digest, KeySet, digest};

/// An external authorization check.
#[derive(Clone, Debug)]
pub struct ExternalAuthCheck<R> {
    /// Its settings.
    pub auth: ExternalAuth,
    /// The rule that forwards the check, which has no steps. `None`: the check is routed on the request's own host.
    pub rule: Option<R>,
    /// Identifies the check where its results are cached; otherwise empty.
    pub identity: Box<str>,
}

/// An authorization check by a gRPC service.
#[derive(Clone, Debug)]
pub struct GrpcAuthCheck<R> {
    /// Its settings.
    pub auth: GrpcAuth,
    /// The rule that forwards the check, which has no steps.
    pub rule: R,
}

/// Several guards of which one must pass.
#[derive(Clone, Debug)]
pub struct AnyOfCheck<R> {
    /// A list of client addresses.
    pub access: Option<AccessList>,
    /// A password.
    pub basic: Option<BasicAuth>,
    /// A token.
    pub jwt: Option<TokenCheck<R>>,
    /// An API key.
    pub api_key: Option<Arc<ApiKeyAuth>>,
    /// An external service.
    pub asking: Option<ExternalAuthCheck<R>>,
}

/// A token check.
#[derive(Clone, Debug)]
pub struct TokenCheck<R> {
    /// The accepted tokens.
    pub auth: Arc<JwtAuth>,
    /// Identifies the check: equal if `auth` is.
    pub identity: Digest,
    /// The keys of each of its issuers, in order.
    pub keys: Box<[KeySource<R>]>,
}

/// A login check.
#[derive(Clone, Debug)]
pub struct LoginCheck<R> {
    /// The provider and the accepted logins.
    pub auth: Arc<OidcAuth>,
    /// Identifies the check: equal if `auth` is.
    pub identity: Digest,
    /// Identifies its sessions: equal if [`OidcAuth::sessions`] is.
    pub sessions: Digest,
    /// The name of the session cookie.
    pub session_cookie: Box<str>,
    /// The prefix of the cookie names of logins in progress.
    pub attempt_cookie: Box<str>,
    /// Identifies the provider's metadata.
    pub metadata_id: Digest,
    /// The rules for requests to the provider's hosts, in order.
    pub rules: Box<[R]>,
}

/// The prefix of all login cookies: browsers accept them only from the host itself, over TLS (RFC 6265bis §4.1.3.2).
pub const LOGIN_COOKIE_PREFIX: &str = "__Host-fairway-";

/// Identifies a document: equal if it is requested in the same way.
fn document_id(document: &PublishedDocument) -> Digest {
    digest(format!("{document:?}").as_bytes())
}

impl<R> LoginCheck<R> {
    /// `rule` makes a rule for requests to a host of the provider.
    pub(crate) fn new(auth: &Arc<OidcAuth>, rule: &mut impl FnMut(&BackendKey, Timeouts) -> R) -> Self {
        let sessions = digest(auth.sessions.as_bytes());
        let tag: String = sessions[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let rules = auth.hosts.iter().map(|host| rule(&host.backend, auth.metadata.timeouts));
        Self {
            auth: Arc::clone(auth),
            identity: digest(format!("{auth:?}").as_bytes()),
            sessions,
            session_cookie: format!("{LOGIN_COOKIE_PREFIX}session-{tag}").into(),
            attempt_cookie: format!("{LOGIN_COOKIE_PREFIX}login-{tag}-").into(),
            // The login's result depends on all of this.
            metadata_id: digest(format!("{:?}", (&auth.metadata, &auth.issuer, &auth.hosts)).as_bytes()),
            rules: rules.collect(),
        }
    }
}

/// Where the keys of an issuer come from.
#[derive(Clone, Debug)]
pub enum KeySource<R> {
    /// From the configuration.
    Inline(Arc<KeySet>),
    /// From the issuer.
    Published {
        /// Identifies the key set: equal if it is requested in the same way.
        id: Digest,
        /// The rule for requests to the issuer.
        rule: R,
    },
}

impl<R> TokenCheck<R> {
    /// `rule` makes a rule for requests to an issuer.
    ///
    /// # Errors
    /// Why the configured keys cannot be used, as a sentence.
    pub(crate) fn new(
        auth: &Arc<JwtAuth>,
        rule: &mut impl FnMut(&BackendKey, Timeouts) -> R,
    ) -> Result<Self, String> {
        let keys = auth.issuers.iter().map(|issuer| match &issuer.keys {
            JwtKeys::Inline(text) => Ok(KeySource::Inline(shared_keys(text)?)),
            JwtKeys::Published(keys) => {
                Ok(KeySource::Published { id: document_id(keys), rule: rule(&keys.backend, keys.timeouts) })
            }
        });
        let keys = keys.collect::<Result<_, String>>()?;
        Ok(Self { auth: Arc::clone(auth), identity: digest(format!("{auth:?}").as_bytes()), keys })
    }

    /// The rules for requests to issuers.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &R> {
        self.keys.iter().filter_map(|source| match source {
            KeySource::Inline(_) => None,
            KeySource::Published { rule, .. } => Some(rule),
        })
    }
}

/// A configured key set; consecutively compiled rules with the same keys share it.
fn shared_keys(text: &Arc<str>) -> Result<Arc<KeySet>, String> {
    thread_local! {
        static LAST: RefCell<Option<(Arc<str>, Arc<KeySet>)>> = const { RefCell::new(None) };
    }
    let is_same = |(last, _): &&(Arc<str>, Arc<KeySet>)| last == text;
    if let Some(keys) =
        LAST.with_borrow(|last| last.as_ref().filter(is_same).map(|(_, keys)| Arc::clone(keys)))
    {
        return Ok(keys);
    }
    let keys = Arc::new(KeySet::parse(text.as_bytes()).map_err(|problem| problem.to_string())?);
    LAST.set(Some((Arc::clone(text), Arc::clone(&keys))));
    Ok(keys)
}

impl<R> ExternalAuthCheck<R> {
    /// `rule` makes a rule for requests to a backend.
    pub(crate) fn new(auth: &ExternalAuth, rule: &mut impl FnMut(&BackendKey, Timeouts) -> R) -> Self {
        let rule = match &auth.service {
            AuthService::Backend { backend, .. } => Some(rule(backend, auth.timeouts)),
            AuthService::OwnHost { .. } => None,
        };
        let mut auth = auth.clone();
        // The service must not set headers for the host, the framing or the connection.
        let fixed = |known: Known| known.is_of_one_hop() || known == Known::Host;
        auth.copied.retain(|name| !fixed(Known::from_name(name.as_bytes())));
        auth.fields.retain(|(name, _)| !fixed(Known::from_name(name.as_bytes())));
        let identity = auth.kept.as_ref().map(|_| format!("{auth:?}").into()).unwrap_or_default();
        Self { auth, rule, identity }
    }
}

impl<R> GrpcAuthCheck<R> {
    /// `rule` makes a rule for requests to the service.
    pub(crate) fn new(auth: &GrpcAuth, rule: &mut impl FnMut(&BackendKey, Timeouts) -> R) -> Self {
        Self { auth: auth.clone(), rule: rule(&auth.service.backend, auth.service.timeouts) }
    }
}

impl<R> AnyOfCheck<R> {
    /// As [`ExternalAuthCheck::new`].
    ///
    /// # Errors
    /// As [`TokenCheck::new`].
    pub(crate) fn new(
        guard: &AnyGuard,
        rule: &mut impl FnMut(&BackendKey, Timeouts) -> R,
    ) -> Result<Self, String> {
        Ok(Self {
            access: guard.access.clone(),
            basic: guard.basic.clone(),
            jwt: guard.jwt.as_ref().map(|auth| TokenCheck::new(auth, rule)).transpose()?,
            api_key: guard.api_key.clone(),
            asking: guard.external.as_deref().map(|auth| ExternalAuthCheck::new(auth, rule)),
        })
    }
}
