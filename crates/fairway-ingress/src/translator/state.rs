//! State kept between updates.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{BackendKey, Config, HostPattern};
use fairway_objects::backend::BackendRef;
use fairway_objects::few::SmallSet;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_objects::users::ReverseIndex;
use imbl::OrdMap;

use crate::ingress::aliases::AliasNames;
use crate::ingress::class::Classes;
use crate::ingress::context::Context;
use crate::ingress::defaults::Defaults;
use crate::ingress::host_certificate::HostCertificate;
use crate::ingress::ownership::Ownership;
use crate::listeners;
use crate::translation::Translation;
use crate::translator::certificates::Certificates;
use crate::translator::dependencies::Dependencies;
use crate::translator::served::Ingresses;

/// State of earlier updates. Cloning is free.
#[derive(Clone, Debug)]
pub(super) struct TranslatorState {
    pub(super) progress: Progress,
    pub(super) classes: Classes,
    pub(super) defaults: Defaults,
    /// ConfigMaps that the settings reference.
    pub(super) settings_maps: BTreeSet<ObjectKey>,
    pub(super) ingresses: Ingresses,
    pub(super) dependencies: Dependencies,
    pub(super) hosts: OrdMap<HostPattern, Arc<HostMemo>>,
    /// Ownership of the names that Ingresses claim in addition to their hosts.
    pub(super) claims: OrdMap<HostPattern, Arc<Ownership>>,
    pub(super) backends: OrdMap<BackendKey, Arc<BackendMemo>>,
    pub(super) certificates: Certificates,
    pub(super) certificate_users: ReverseIndex<ObjectKey, CertificateUser>,
    /// The Service of each slice.
    pub(super) slice_services: OrdMap<ObjectKey, ObjectKey>,
    /// The ServiceImport of each slice that has one.
    pub(super) slice_imports: OrdMap<ObjectKey, ObjectKey>,
    pub(super) current: Translation,
}

/// Progress of the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing has been processed yet.
    New,
    /// Everything has been processed; diagnostics of certificates are valid from `since` until before `until`.
    Running { since: i64, until: i64 },
}

/// State of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct HostMemo {
    /// Its own certificate, before a wildcard host's replaces it.
    pub(super) own_certificate: HostCertificate,
    /// For a wildcard: the ownership by Ingresses that name or claim it, if any.
    pub(super) ownership: Option<Box<Ownership>>,
    /// Sorted, each once.
    pub(super) backends: Box<[BackendKey]>,
    pub(super) certificate: Option<Box<ObjectKey>>,
    /// The aliases that it requests.
    pub(super) names: AliasNames,
}

/// State of a backend.
#[derive(Clone, Debug)]
pub(super) struct BackendMemo {
    pub(super) reference: BackendRef,
    pub(super) users: SmallSet<BackendUser>,
    pub(super) external: Option<Arc<str>>,
    pub(super) certificate: Option<Box<ObjectKey>>,
}

/// A user of a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BackendUser {
    /// A host of Ingresses.
    Host(HostPattern),
    /// A route of the Gateway API.
    Route(ObjectRef),
    /// The ConfigMaps of TCP and UDP services.
    ServiceMaps,
}

/// A user of a certificate.
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

impl TranslatorState {
    /// Before the first update.
    pub(super) fn new(options: &Options) -> Self {
        let mut config = Config::default();
        listeners::set_ingress_listeners(options, &mut config);
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
            certificate_users: ReverseIndex::default(),
            slice_services: OrdMap::new(),
            slice_imports: OrdMap::new(),
            current: Translation { config, ..Translation::default() },
        }
    }

    /// Inputs for reading Ingresses.
    pub(super) fn context<'a>(&'a self, inputs: Inputs<'a>) -> Context<'a> {
        Context { inputs, defaults: &self.defaults }
    }

    /// Replaces the certificate of a user; returns the affected Secrets.
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
