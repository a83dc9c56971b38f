//! The steps of an update, in their order. Each looks only at what is marked, and marks what follows from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{Backend, BackendKey, CertificateKey, HostKey, HostPattern, WildcardSpan};
use imbl::OrdSet;
use k8s_openapi::api::networking::v1::Ingress;

use super::dependencies::parent;
use super::work::{ClaimsWork, Work};
use super::{IngressStatus, Progress, Translator};
use crate::backend::{self, Target, Wanted};
use crate::class::Classes;
use crate::diagnostic::{Diagnostic, Scope, Severity};
use crate::host::{self, Built, HostTls, Surroundings, TABLE};
use crate::plan::{self, Context, Plan};
use crate::resources::{ObjectKey, Resources, slice_service};
use crate::{old_api, settings};

/// What is remembered of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct HostMemo {
    tls: HostTls,
    backends: BTreeSet<BackendKey>,
    certificate: Option<ObjectKey>,
}

/// What is remembered of a backend.
#[derive(Clone, Debug)]
pub(super) struct BackendMemo {
    wanted: Wanted,
    users: OrdSet<HostPattern>,
    external: Option<Arc<str>>,
    certificate: Option<ObjectKey>,
}

/// Who shows a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CertificateUser {
    Default,
    Host(HostPattern),
    Backend(BackendKey),
}

impl Translator {
    /// Marks the backends whose slices changed: those of the Service that each names, and named before.
    pub(super) fn remember_slices(&mut self, resources: &Resources, work: &mut Work) {
        for key in std::mem::take(&mut work.slices) {
            let owner = resources.slices.get(&key).and_then(|slice| slice_service(&key, &slice.object));
            let before = match &owner {
                Some(owner) => self.slice_owners.insert(key, owner.clone()),
                None => self.slice_owners.remove(&key),
            };
            for service in before.iter().chain(&owner) {
                work.backends.extend(self.dependencies.backends.of(service).cloned());
            }
        }
    }

    /// The classes and the settings; where they mean something else now, every Ingress is read again.
    pub(super) fn read_globals(&mut self, resources: &Resources, work: &mut Work) {
        let mut all = false;
        if work.classes {
            let classes = Classes::read(resources, &self.options);
            all |= classes != self.classes;
            self.classes = classes;
        }
        if work.settings {
            let read = settings::read(resources, &self.options);
            all |= read.defaults != self.defaults;
            self.defaults = read.defaults;
            work.claims = ClaimsWork::Tell;
            self.current.config.settings = read.settings;
            let mut found = read.diagnostics;
            found.extend(self.missing_default_certificate(resources));
            self.current.diagnostics.replace(Scope::Settings, found);
        }
        if all {
            work.ingresses.extend(resources.ingresses.keys().cloned());
            work.hosts.insert(HostPattern::Any);
        }
    }

    fn missing_default_certificate(&self, resources: &Resources) -> Option<Diagnostic> {
        let key = self.options.default_certificate.as_ref()?;
        if resources.secrets.contains_key(key) {
            return None;
        }
        let origin = fairway_model::Origin::object("Secret", &key.namespace, &key.name);
        let problem = "the Secret of the default certificate does not exist";
        let found = Diagnostic::new(Severity::Error, "missing-reference", origin);
        Some(found.because(problem, "a self-signed certificate is used in its place"))
    }

    /// Reads Ingresses, and marks their hosts as they were and as they are.
    pub(super) fn read_ingresses(&mut self, resources: &Resources, work: &mut Work) {
        for key in std::mem::take(&mut work.ingresses) {
            if let Some(plan) = self.plans.remove(&key) {
                self.dependencies.leave_hosts(&plan);
                work.hosts.extend(plan.hosts());
            }
            let context = Context { resources, options: &self.options, defaults: &self.defaults };
            let ingress = resources.ingresses.get(&key);
            let read = ingress.map(|it| plan::read(&key, it, &self.classes, &context)).unwrap_or_default();
            let now_shown = read.uses.certificates.clone();
            let before = self.dependencies.set_uses(&key, read.uses);
            work.secrets.extend(before.certificates.symmetric_difference(&now_shown).cloned());
            self.current.diagnostics.replace(Scope::Ingress(key.clone()), read.diagnostics);
            self.set_status(&key, read.plan.as_ref());
            let access = read.plan.as_ref().and_then(|plan| plan.treatment.access.as_ref());
            if self.dependencies.guard(&key, access.is_some()) {
                work.claims = ClaimsWork::Tell;
            }
            if let Some(plan) = read.plan {
                self.dependencies.join_hosts(&plan);
                work.hosts.extend(plan.hosts());
                self.plans.insert(key, Arc::new(plan));
            }
        }
    }

    fn set_status(&mut self, key: &ObjectKey, plan: Option<&Plan>) {
        let Some(plan) = plan else {
            self.current.status.remove(key);
            return;
        };
        let metadata = &plan.ingress.object.metadata;
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        let status = IngressStatus {
            ingress: key.clone(),
            hosts: plan.hosts().into_iter().collect(),
            uid: text(&metadata.uid),
            version: text(&metadata.resource_version),
            generation: metadata.generation,
            addresses: addresses(&plan.ingress.object),
        };
        if self.current.status.get(key).is_none_or(|before| **before != status) {
            self.current.status.insert(key.clone(), Arc::new(status));
        }
    }

    /// Ingresses of removed API versions only give a diagnostic.
    pub(super) fn read_old_ingresses(&mut self, resources: &Resources, work: &Work) {
        for key in &work.old_ingresses {
            let found = resources.old_ingresses.get(key).map(|value| old_api::describe(key, value));
            let scope = Scope::OldIngress(key.clone());
            self.current.diagnostics.replace(scope, found.into_iter().collect());
        }
    }

    /// Reads Secrets with certificates, and looks at the time.
    pub(super) fn read_secrets(&mut self, resources: &Resources, work: &mut Work, now: i64) {
        let default = self.options.default_certificate.clone();
        if self.progress == Progress::New {
            work.secrets.extend(default.clone());
        }
        for key in &work.secrets {
            let shown = self.dependencies.certificates.has(key) || default.as_ref() == Some(key);
            match resources.secrets.get(key).filter(|_| shown) {
                Some(secret) => self.shelf.put(key, secret),
                None => self.shelf.drop(key),
            }
        }
        if let Some(default) = default.filter(|default| work.secrets.contains(default)) {
            self.show_default(resources, &default);
        }
        let stale = match self.progress {
            Progress::New => true,
            Progress::Running { since, until } => now < since || now >= until,
        };
        let all = stale.then(|| self.shelf.keys().cloned().collect::<Vec<_>>());
        for key in work.secrets.iter().chain(all.iter().flatten()) {
            let is_default = self.options.default_certificate.as_ref() == Some(key);
            let substitute = if is_default { "a self-signed certificate" } else { "the default certificate" };
            let found = self.shelf.diagnostics(key, now, substitute);
            self.current.diagnostics.replace(Scope::Certificate(key.clone()), found);
        }
        if stale || !work.secrets.is_empty() {
            self.progress = Progress::Running { since: now, until: self.shelf.next_moment(now) };
        }
        work.certificates.append(&mut work.secrets);
    }

    fn show_default(&mut self, resources: &Resources, key: &ObjectKey) {
        let read = settings::read(resources, &self.options);
        let found = read.diagnostics.into_iter().chain(self.missing_default_certificate(resources));
        self.current.diagnostics.replace(Scope::Settings, found.collect());
        self.certificate_users.add(key, CertificateUser::Default);
        let usable = self.shelf.certificate(key).is_some();
        self.current.config.default_certificate = usable.then(|| CertificateKey(key.to_string().into()));
    }

    /// Makes hosts: wildcards first, because hosts below them may show their certificate.
    pub(super) fn make_hosts(&mut self, resources: &Resources, work: &mut Work) {
        let (exact, wide): (Vec<_>, Vec<_>) = std::mem::take(&mut work.hosts)
            .into_iter()
            .partition(|host| matches!(host, HostPattern::Exact(_)));
        let mut exact: BTreeSet<HostPattern> = exact.into_iter().collect();
        for host in wide {
            let before = self.hosts.get(&host).map(|memo| memo.tls.clone()).unwrap_or_default();
            self.make_host(&host, resources, work);
            let after = self.hosts.get(&host).map(|memo| memo.tls.clone()).unwrap_or_default();
            if let HostPattern::Wildcard { suffix, .. } = &host
                && before != after
            {
                exact.extend(self.dependencies.below.of(suffix).cloned());
            }
        }
        for host in exact {
            self.make_host(&host, resources, work);
        }
    }

    fn make_host(&mut self, host: &HostPattern, resources: &Resources, work: &mut Work) {
        let key = HostKey { table: TABLE.into(), host: host.clone() };
        let scope = Scope::Host(key.clone());
        if !self.dependencies.hosts.has(host) && *host != HostPattern::Any {
            self.remember_host(host, HostMemo::default(), work);
            self.hosts.remove(host);
            self.current.config.hosts.remove(&key);
            self.current.diagnostics.replace(scope, Vec::new());
            return;
        }
        let Built { host: made, tls, backends, diagnostics } = self.built_host(host, resources);
        let shown = made.certificate.as_ref().and_then(|key| ObjectKey::parse(&key.0));
        let mut memo = HostMemo { tls, backends: BTreeSet::new(), certificate: shown };
        for wanted in backends {
            memo.backends.insert(wanted.key.clone());
            self.want_backend(host, wanted, work);
        }
        self.remember_host(host, memo, work);
        self.current.diagnostics.replace(scope, diagnostics);
        if self.current.config.hosts.get(&key).is_none_or(|before| **before != made) {
            self.current.config.hosts.insert(key, Arc::new(made));
        }
    }

    fn built_host(&self, host: &HostPattern, resources: &Resources) -> Built {
        let keys = self.dependencies.hosts.of(host);
        let plans: Vec<Arc<Plan>> = keys.filter_map(|(_, key)| self.plans.get(key).cloned()).collect();
        let wildcard = parent(host)
            .map(|suffix| HostPattern::Wildcard { suffix, span: WildcardSpan::OneLabel })
            .and_then(|wildcard| self.hosts.get(&wildcard))
            .map(|memo| memo.tls.clone());
        let around = Surroundings {
            context: Context { resources, options: &self.options, defaults: &self.defaults },
            certificate: &|key| self.shelf.certificate(key),
            wildcard: wildcard.unwrap_or_default(),
        };
        host::build(host, &plans, &around)
    }

    /// Notes that a host wants a backend, and marks it where that is new.
    fn want_backend(&mut self, host: &HostPattern, wanted: Wanted, work: &mut Work) {
        let key = wanted.key.clone();
        match self.backends.get_mut(&key) {
            Some(memo) => {
                memo.users.insert(host.clone());
                if memo.wanted != wanted {
                    memo.wanted = wanted;
                    work.backends.insert(key);
                }
            }
            None => {
                self.dependencies.backends.add(&wanted.service, key.clone());
                let users = OrdSet::unit(host.clone());
                let memo = BackendMemo { wanted, users, external: None, certificate: None };
                self.backends.insert(key.clone(), memo);
                work.backends.insert(key);
            }
        }
    }

    /// Puts the memory of a host in the place of the earlier one, and releases what it no longer uses.
    fn remember_host(&mut self, host: &HostPattern, memo: HostMemo, work: &mut Work) {
        let before = self.hosts.remove(host).unwrap_or_default();
        for key in before.backends.difference(&memo.backends) {
            if let Some(backend) = self.backends.get_mut(key) {
                backend.users.remove(host);
                if backend.users.is_empty() {
                    work.backends.insert(key.clone());
                }
            }
        }
        let user = CertificateUser::Host(host.clone());
        self.exchange_certificate(user, (&before.certificate, &memo.certificate), work);
        self.hosts.insert(host.clone(), memo);
    }

    fn exchange_certificate(
        &mut self,
        user: CertificateUser,
        (before, after): (&Option<ObjectKey>, &Option<ObjectKey>),
        work: &mut Work,
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.certificate_users.remove(before, &user);
        }
        if let Some(after) = after {
            self.certificate_users.add(after, user);
        }
        work.certificates.extend(before.iter().chain(after).cloned());
    }

    /// Makes backends, and forgets those that no host wants.
    pub(super) fn make_backends(&mut self, resources: &Resources, work: &mut Work) {
        for key in std::mem::take(&mut work.backends) {
            let Some(mut memo) = self.backends.remove(&key) else { continue };
            let wanted = !memo.users.is_empty();
            let context = Context { resources, options: &self.options, defaults: &self.defaults };
            let built = wanted.then(|| backend::build(&memo.wanted, &context)).flatten();
            let external = match memo.wanted.target(&context) {
                Ok(Target::External { name, .. }) if wanted && name.parse::<std::net::IpAddr>().is_err() => {
                    Some(name)
                }
                _ => None,
            };
            self.exchange_external(&key, (&memo.external, &external));
            let certificate = memo.wanted.wish.client_certificate().filter(|_| wanted).cloned();
            self.exchange_certificate(
                CertificateUser::Backend(key.clone()),
                (&memo.certificate, &certificate),
                work,
            );
            let (made, diagnostics) = built.unzip();
            self.current.diagnostics.replace(Scope::Backend(key.0.clone()), diagnostics.unwrap_or_default());
            self.set_backend(&key, made);
            if wanted {
                (memo.external, memo.certificate) = (external, certificate);
                self.backends.insert(key, memo);
            } else {
                self.dependencies.backends.remove(&memo.wanted.service, &key);
            }
        }
    }

    fn set_backend(&mut self, key: &BackendKey, made: Option<Backend>) {
        let backends = &mut self.current.config.backends;
        match made {
            None => drop(backends.remove(key)),
            Some(made) if backends.get(key).is_some_and(|before| **before == made) => {}
            Some(made) => drop(backends.insert(key.clone(), Arc::new(made))),
        }
    }

    fn exchange_external(
        &mut self,
        key: &BackendKey,
        (before, after): (&Option<Arc<str>>, &Option<Arc<str>>),
    ) {
        if let Some(name) = before {
            self.dependencies.external.remove(name, key);
            if !self.dependencies.external.has(name) {
                self.current.external_names.remove(name);
            }
        }
        if let Some(name) = after {
            self.dependencies.external.add(name, key.clone());
            self.current.external_names.insert(name.clone());
        }
    }

    /// Puts the certificates that somebody shows into the configuration, and takes the others out.
    pub(super) fn make_certificates(&mut self, work: &Work) {
        let certificates = &mut self.current.config.certificates;
        for key in &work.certificates {
            let name = CertificateKey(key.to_string().into());
            match self.shelf.certificate(key).filter(|_| self.certificate_users.has(key)) {
                None => drop(certificates.remove(&name)),
                Some(certificate) => {
                    if certificates.get(&name).is_none_or(|before| *before != certificate) {
                        certificates.insert(name, certificate);
                    }
                }
            }
        }
    }
}

/// What `status.loadBalancer` says; an entry has an IP address or a host name (Ingress API reference).
fn addresses(ingress: &Ingress) -> Vec<Arc<str>> {
    let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    entries.filter_map(|entry| entry.ip.as_deref().or(entry.hostname.as_deref())).map(Into::into).collect()
}
