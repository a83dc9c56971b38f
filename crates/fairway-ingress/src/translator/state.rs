//! What is remembered between two updates. Owns the memory, and nothing of how it comes about.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{BackendKey, Config, HostPattern};
use fairway_objects::backend::BackendRef;
use fairway_objects::few::Few;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_objects::users::Users;
use imbl::OrdMap;

use crate::ingress::class::Classes;
use crate::ingress::context::Context;
use crate::ingress::defaults::Defaults;
use crate::ingress::further::Names;
use crate::ingress::host_certificate::HostCertificate;
use crate::ingress::ownership::Ownership;
use crate::listeners;
use crate::translation::Translation;
use crate::translator::certificates::Certificates;
use crate::translator::dependencies::Dependencies;
use crate::translator::served::Ingresses;

/// Everything that the next update may need of the earlier ones. A clone costs nothing.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) progress: Progress,
    pub(super) classes: Classes,
    pub(super) defaults: Defaults,
    /// The ConfigMaps that the settings name.
    pub(super) settings_maps: BTreeSet<ObjectKey>,
    pub(super) ingresses: Ingresses,
    pub(super) dependencies: Dependencies,
    pub(super) hosts: OrdMap<HostPattern, Arc<HostMemo>>,
    /// What the Ingresses that claim a name besides their hosts say about its ownership.
    pub(super) claims: OrdMap<HostPattern, Arc<Ownership>>,
    pub(super) backends: OrdMap<BackendKey, Arc<BackendMemo>>,
    pub(super) certificates: Certificates,
    pub(super) certificate_users: Users<ObjectKey, CertificateUser>,
    /// The Service of each slice.
    pub(super) slice_services: OrdMap<ObjectKey, ObjectKey>,
    /// The ServiceImport of each slice that has one.
    pub(super) slice_imports: OrdMap<ObjectKey, ObjectKey>,
    pub(super) current: Translation,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing was visited yet.
    New,
    /// All was visited; diagnostics of certificates hold from the first moment to before the second.
    Running { since: i64, until: i64 },
}

/// What is remembered of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct HostMemo {
    /// Its own, before that of a wildcard host takes its place.
    pub(super) own_certificate: HostCertificate,
    /// Of a wildcard: what the Ingresses that name or claim it say about its ownership, if anything.
    pub(super) ownership: Option<Box<Ownership>>,
    /// In order, each once.
    pub(super) backends: Box<[BackendKey]>,
    pub(super) certificate: Option<Box<ObjectKey>>,
    /// The names that it asks for besides its own.
    pub(super) names: Names,
}

/// What is remembered of a backend.
#[derive(Clone, Debug)]
pub(super) struct BackendMemo {
    pub(super) reference: BackendRef,
    pub(super) users: Few<BackendUser>,
    pub(super) external: Option<Arc<str>>,
    pub(super) certificate: Option<Box<ObjectKey>>,
}

/// Who uses a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BackendUser {
    /// A host of Ingresses.
    Host(HostPattern),
    /// A route of the Gateway API.
    Route(ObjectRef),
    /// The ConfigMaps of TCP and UDP services.
    ServiceMaps,
}

/// Who shows a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CertificateUser {
    Default,
    Host(HostPattern),
    Backend(BackendKey),
    /// A listener of a Gateway, by its name in the configuration.
    Listener(Arc<str>),
}

impl HostMemo {
    /// The namespace that owns the names below a wildcard.
    pub(super) fn owner(&self) -> Option<&Arc<str>> {
        self.ownership.as_deref().and_then(Ownership::owner)
    }
}

impl State {
    /// Before the first update.
    pub(super) fn new(options: &Options) -> Self {
        let mut config = Config::default();
        listeners::of_ingresses(options, &mut config);
        Self {
            progress: Progress::New,
            classes: Classes::default(),
            defaults: Defaults::default(),
            settings_maps: BTreeSet::new(),
            ingresses: Ingresses::default(),
            dependencies: Dependencies::default(),
            hosts: OrdMap::new(),
            claims: OrdMap::new(),
            backends: OrdMap::new(),
            certificates: Certificates::default(),
            certificate_users: Users::default(),
            slice_services: OrdMap::new(),
            slice_imports: OrdMap::new(),
            current: Translation { config, ..Translation::default() },
        }
    }

    /// What readers of Ingresses may look at.
    pub(super) fn context<'a>(&'a self, inputs: Inputs<'a>) -> Context<'a> {
        Context { inputs, defaults: &self.defaults }
    }

    /// Notes who shows which certificate from now on, and gives the Secrets that this concerns.
    pub(super) fn exchange_certificate(
        &mut self,
        user: CertificateUser,
        before: Option<&ObjectKey>,
        after: Option<&ObjectKey>,
    ) -> Vec<ObjectKey> {
        if before == after {
            return Vec::new();
        }
        if let Some(before) = before {
            self.certificate_users.remove(before, &user);
        }
        if let Some(after) = after {
            self.certificate_users.add(after, user);
        }
        before.into_iter().chain(after).cloned().collect()
    }
}
