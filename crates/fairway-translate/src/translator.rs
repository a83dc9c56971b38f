//! Keeps a translation up to date at a cost of what changed. Owns the memory of what depends on what; never reads an
//! object's meaning itself.

use std::sync::Arc;

use fairway_model::{Config, HostPattern, Listener, ListenerProtocol};
use imbl::{OrdMap, OrdSet};

use crate::{Diagnostics, ObjectKey, ObjectRef, Options, Resources};

/// What the objects mean. All parts are persistent: a clone costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What the data plane shall do.
    pub config: Config,
    /// All current diagnostics.
    pub diagnostics: Diagnostics,
    /// The Ingresses that are served.
    pub status: OrdMap<ObjectKey, Arc<IngressStatus>>,
    /// External names that rules refer to and whose addresses are wanted as [`crate::Change::Resolved`].
    pub external_names: OrdSet<Arc<str>>,
}

/// An Ingress that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressStatus {
    /// Its name.
    pub ingress: ObjectKey,
    /// The hosts it has rules for.
    pub hosts: Vec<HostPattern>,
}

/// Translates, and after an edit repeats only what the edit touches.
#[derive(Clone, Debug)]
pub struct Translator {
    options: Options,
    current: Translation,
}

/// Translates from scratch; `now` is in seconds since 1970.
#[must_use]
pub fn translate(resources: &Resources, options: &Options, now: i64) -> Translation {
    Translator::new(options.clone()).update(resources, &[], now)
}

impl Translator {
    /// One that has seen nothing yet: its first [`Translator::update`] visits everything.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let listener = |name: &str, protocol, public_port| Listener {
            name: name.into(),
            protocol,
            public_port,
            table: "ingress".into(),
        };
        let listeners = vec![
            listener("http", ListenerProtocol::Http, options.public_http_port),
            listener("https", ListenerProtocol::Https, options.public_https_port),
        ];
        let config = Config { listeners, ..Config::default() };
        Self { options, current: Translation { config, ..Translation::default() } }
    }

    /// The translation of `resources`, of which only `changed` differ from the last call; `now` is in seconds since
    /// 1970.
    pub fn update(&mut self, resources: &Resources, changed: &[ObjectRef], now: i64) -> Translation {
        let _ = (&self.options, resources, changed, now);
        self.current.clone()
    }
}
