//! The guards of a rule that find out who the client is: another service, a password, a token, an API key or a login. Only made here;
//! the data plane runs them.

use std::cell::RefCell;
use std::sync::Arc;

use fairway_http::Known;
use fairway_model::{
    AccessList, AnyGuard, ApiKeyAuth, AuthService, BackendKey, BasicAuth, ExternalAuth, GrpcAuth, JwtAuth,
    JwtKeys, OidcAuth, PublishedDocument, Timeouts,
};
use fairway_token::{Digest, KeySet, digest};

/// A question to another service.
#[derive(Clone, Debug)]
pub struct Asking<R> {
    /// What is asked.
    pub auth: ExternalAuth,
    /// Where the question goes: a rule of its own, without steps. `None`: to whoever serves it on the request's own host.
    pub rule: Option<R>,
    /// What tells the question apart from all others, where answers are kept; else empty.
    pub identity: Box<str>,
}

/// A question to a service that speaks gRPC.
#[derive(Clone, Debug)]
pub struct AskingGrpc<R> {
    /// What is asked.
    pub auth: GrpcAuth,
    /// Where the question goes: a rule of its own, without steps.
    pub rule: R,
}

/// Several guards of which one is enough.
#[derive(Clone, Debug)]
pub struct AnyOf<R> {
    /// The client's address.
    pub access: Option<AccessList>,
    /// A password.
    pub basic: Option<BasicAuth>,
    /// A token.
    pub jwt: Option<TokenCheck<R>>,
    /// An API key.
    pub api_key: Option<Arc<ApiKeyAuth>>,
    /// Another service.
    pub asking: Option<Asking<R>>,
}

/// A token that is asked for.
#[derive(Clone, Debug)]
pub struct TokenCheck<R> {
    /// Whose, and what of it.
    pub auth: Arc<JwtAuth>,
    /// What tells it apart from all other checks: equal where `auth` is.
    pub identity: Digest,
    /// What tokens of each of its issuers are verified with, in their order.
    pub keys: Box<[KeySource<R>]>,
}

/// A login that is asked for.
#[derive(Clone, Debug)]
pub struct LoginCheck<R> {
    /// By which provider, and what of it.
    pub auth: Arc<OidcAuth>,
    /// What tells it apart from all other checks: equal where `auth` is.
    pub identity: Digest,
    /// What tells its sessions apart from all others: equal where [`OidcAuth::sessions`] is.
    pub sessions: Digest,
    /// The name of the cookie with the session.
    pub session_cookie: Box<str>,
    /// What the names of the cookies with logins that have begun start with.
    pub attempt_cookie: Box<str>,
    /// What tells the metadata of the provider apart from all others.
    pub metadata_id: Digest,
    /// The rules by which the hosts of the provider are asked, in their order.
    pub rules: Box<[R]>,
}

/// What the names of all cookies of logins start with: browsers take them only from the host itself, over TLS (RFC 6265bis §4.1.3.2).
pub const LOGIN_COOKIE_PREFIX: &str = "__Host-fairway-";

/// What tells a document apart from all others: equal where it is asked for in the same way.
fn document_id(document: &PublishedDocument) -> Digest {
    digest(format!("{document:?}").as_bytes())
}

impl<R> LoginCheck<R> {
    /// `rule` makes the rule by which a host of the provider is asked.
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
            // What comes of it depends on all of this.
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
        /// What tells the key set apart from all others: equal where it is asked for in the same way.
        id: Digest,
        /// The rule by which it is asked for.
        rule: R,
    },
}

impl<R> TokenCheck<R> {
    /// `rule` makes the rule by which an issuer is asked.
    ///
    /// # Errors
    /// With why the keys of the configuration cannot be used, as a sentence.
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

    /// The rules by which issuers are asked.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &R> {
        self.keys.iter().filter_map(|source| match source {
            KeySource::Inline(_) => None,
            KeySource::Published { rule, .. } => Some(rule),
        })
    }
}

/// A key set of the configuration; rules that are made one after the other and have the same share it.
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

impl<R> Asking<R> {
    /// `rule` makes the rule by which a backend is asked.
    pub(crate) fn new(auth: &ExternalAuth, rule: &mut impl FnMut(&BackendKey, Timeouts) -> R) -> Self {
        let rule = match &auth.service {
            AuthService::Backend { backend, .. } => Some(rule(backend, auth.timeouts)),
            AuthService::OwnHost { .. } => None,
        };
        let mut auth = auth.clone();
        // Where the message ends and who gets it, no answer to a question says.
        let fixed = |known: Known| known.is_of_one_hop() || known == Known::Host;
        auth.copied.retain(|name| !fixed(Known::of(name.as_bytes())));
        auth.fields.retain(|(name, _)| !fixed(Known::of(name.as_bytes())));
        let identity = auth.kept.as_ref().map(|_| format!("{auth:?}").into()).unwrap_or_default();
        Self { auth, rule, identity }
    }
}

impl<R> AskingGrpc<R> {
    /// `rule` makes the rule by which the service is asked.
    pub(crate) fn new(auth: &GrpcAuth, rule: &mut impl FnMut(&BackendKey, Timeouts) -> R) -> Self {
        Self { auth: auth.clone(), rule: rule(&auth.service.backend, auth.service.timeouts) }
    }
}

impl<R> AnyOf<R> {
    /// As [`Asking::new`].
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
            asking: guard.external.as_deref().map(|auth| Asking::new(auth, rule)),
        })
    }
}
