//! The guards of a rule that wait for somebody: another service, or the verification of a password. Only made here; the data
//! plane runs them.

use fairway_http::Known;
use fairway_model::{AccessList, AnyGuard, AuthService, BackendKey, BasicAuth, ExternalAuth, Timeouts};

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

/// Several guards of which one is enough.
#[derive(Clone, Debug)]
pub struct AnyOf<R> {
    /// The client's address.
    pub access: Option<AccessList>,
    /// A password.
    pub basic: Option<BasicAuth>,
    /// Another service.
    pub asking: Option<Asking<R>>,
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

impl<R> AnyOf<R> {
    /// As [`Asking::new`].
    pub(crate) fn new(guard: &AnyGuard, rule: &mut impl FnMut(&BackendKey, Timeouts) -> R) -> Self {
        Self {
            access: guard.access.clone(),
            basic: guard.basic.clone(),
            asking: guard.external.as_deref().map(|auth| Asking::new(auth, rule)),
        }
    }
}
