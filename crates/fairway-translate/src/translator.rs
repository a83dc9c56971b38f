//! Keeps a translation up to date at a cost of what changed. Owns the memory of earlier results; never reads the
//! meaning of an object itself.
//!
//! An edit marks what it touches ([`work`]); then Ingresses are read again, then Secrets, hosts, backends and
//! certificates are made again, each only where it was marked, and each marking what depends on it.

mod claims;
mod dependencies;
mod shelf;
mod stages;
mod work;

use std::sync::Arc;

use fairway_model::{BackendKey, Config, HostPattern, Listener, ListenerProtocol};
use imbl::{OrdMap, OrdSet};

use crate::class::Classes;
use crate::diagnostic::Diagnostics;
use crate::host::TABLE;
use crate::options::Options;
use crate::plan::Plan;
use crate::resources::{ObjectKey, ObjectRef, Resources};
use crate::settings::Defaults;

use dependencies::Dependencies;
use shelf::Shelf;
use stages::{BackendMemo, CertificateUser, HostMemo};
use work::Work;

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
    /// The hosts it has a part in.
    pub hosts: Vec<HostPattern>,
    /// Its `metadata.uid`; empty when it has none.
    pub uid: Arc<str>,
    /// Its `metadata.resourceVersion`: the state that `addresses` are from; empty when it has none.
    pub version: Arc<str>,
    /// Its `metadata.generation`.
    pub generation: Option<i64>,
    /// The IP addresses and host names in its `status.loadBalancer`, in its order.
    pub addresses: Vec<Arc<str>>,
}

/// Translates, and after an edit repeats only what the edit touches. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Translator {
    options: Options,
    progress: Progress,
    classes: Classes,
    defaults: Defaults,
    plans: OrdMap<ObjectKey, Arc<Plan>>,
    dependencies: Dependencies,
    hosts: OrdMap<HostPattern, HostMemo>,
    backends: OrdMap<BackendKey, BackendMemo>,
    shelf: Shelf,
    certificate_users: dependencies::Users<ObjectKey, CertificateUser>,
    slice_owners: OrdMap<ObjectKey, ObjectKey>,
    current: Translation,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing was visited yet.
    New,
    /// All was visited; diagnostics of certificates hold from the first moment to before the second.
    Running { since: i64, until: i64 },
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
        let config = Config { listeners: listeners(&options), ..Config::default() };
        Self {
            options,
            progress: Progress::New,
            classes: Classes::default(),
            defaults: Defaults::default(),
            plans: OrdMap::new(),
            dependencies: Dependencies::default(),
            hosts: OrdMap::new(),
            backends: OrdMap::new(),
            shelf: Shelf::default(),
            certificate_users: dependencies::Users::default(),
            slice_owners: OrdMap::new(),
            current: Translation { config, ..Translation::default() },
        }
    }

    /// The translation of `resources`, of which only `changed` differ from the last call; `now` is in seconds since
    /// 1970.
    pub fn update(&mut self, resources: &Resources, changed: &[ObjectRef], now: i64) -> Translation {
        let mut work = match self.progress {
            Progress::New => Work::all(resources),
            Progress::Running { .. } => self.work(changed),
        };
        self.remember_slices(resources, &mut work);
        self.read_globals(resources, &mut work);
        self.read_ingresses(resources, &mut work);
        self.read_old_ingresses(resources, &work);
        self.tell_claims(&work);
        self.read_secrets(resources, &mut work, now);
        self.make_hosts(resources, &mut work);
        self.make_backends(resources, &mut work);
        self.make_certificates(&work);
        self.current.clone()
    }
}

fn listeners(options: &Options) -> Vec<Listener> {
    let listener = |name: &str, protocol, public_port| Listener {
        name: name.into(),
        protocol,
        public_port,
        table: TABLE.into(),
    };
    vec![
        listener("http", ListenerProtocol::Http, options.public_ports.http),
        listener("https", ListenerProtocol::Https, options.public_ports.https),
    ]
}
