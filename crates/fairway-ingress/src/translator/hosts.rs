//! Builds the marked hosts, and marks the backends and certificates that they use.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{BackendKey, HostKey, HostPattern, WildcardSpan};
use fairway_objects::diagnostic::DiagnosticScope;
use fairway_objects::inputs::Inputs;
use fairway_objects::insertion_order::filling;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::HostOwnership;
use imbl::OrdMap;

use crate::ingress::host::{self, BuiltHost, HostInputs};
use crate::ingress::ownership::{HostIngresses, Ownership};
use crate::ingress::{aliases, layout};
use crate::listeners::{self, ingress_table};
use crate::translator::dependencies::parent;
use crate::translator::state::{BackendUser, CertificateUser, HostMemo, TranslatorState};
use crate::translator::work::Work;

impl TranslatorState {
    /// Builds hosts: wildcards first, because hosts below them may use their certificate or belong to their owner.
    pub(super) fn make_hosts(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        let (exact, wide): (Vec<_>, Vec<_>) = std::mem::take(&mut work.hosts)
            .into_iter()
            .partition(|host| matches!(host, HostPattern::Exact(_)));
        let mut exact: BTreeSet<HostPattern> = exact.into_iter().collect();
        for host in wide {
            let seen_below = |hosts: &OrdMap<HostPattern, Arc<HostMemo>>| {
                hosts
                    .get(&host)
                    .map(|memo| (memo.own_certificate.clone(), memo.ownership.clone()))
                    .unwrap_or_default()
            };
            let before = seen_below(&self.hosts);
            self.make_host(&host, inputs, work);
            let after = seen_below(&self.hosts);
            if let HostPattern::Wildcard { suffix, .. } = &host
                && before != after
            {
                exact.extend(self.dependencies.below.users_of(suffix).cloned());
            }
        }
        for host in filling(exact) {
            self.make_host(&host, inputs, work);
        }
    }

    fn make_host(&mut self, host: &HostPattern, inputs: Inputs<'_>, work: &mut Work) {
        let key = HostKey { table: ingress_table(), host: host.clone() };
        let scope = DiagnosticScope::Host(key.clone());
        let above = self.covering_wildcard(host);
        let (serving, ownership) = self.ingresses_serving(host, above, inputs.options.hosts.ownership);
        if serving.ingresses.is_empty() && *host != HostPattern::Any {
            self.store_host(host, HostMemo::default(), work);
            self.hosts.remove(host);
            self.current.config.hosts.remove(&key);
            listeners::set_passthrough(host, None, &mut self.current.config);
            let mut diagnostics = serving.diagnostics;
            diagnostics.extend(layout::without_main(host, &serving.canaries));
            self.current.diagnostics.replace(scope, diagnostics);
            return;
        }
        let BuiltHost { host: made, stream, certificate: own_certificate, backends, mut diagnostics } =
            self.build_host(host, None, &serving, above.map(|(_, memo)| memo), inputs);
        let names = aliases::names(host, &serving);
        diagnostics.extend(serving.diagnostics);
        let shown = made.certificate.as_ref().and_then(|key| ObjectKey::parse(&key.0)).map(Box::new);
        let used: BTreeSet<_> = backends.iter().map(|reference| reference.key.clone()).collect();
        for reference in backends {
            self.use_backend(BackendUser::Host(host.clone()), reference, work);
        }
        let backends = used.into_iter().collect();
        let memo = HostMemo { own_certificate, ownership, backends, certificate: shown, names };
        self.store_host(host, memo, work);
        self.current.diagnostics.replace(scope, diagnostics);
        listeners::set_passthrough(host, stream, &mut self.current.config);
        if self.current.config.hosts.get(&key).is_none_or(|before| **before != made) {
            self.current.config.hosts.insert(key, Arc::new(made));
        }
    }

    /// The wildcard host that covers an exact one.
    pub(super) fn covering_wildcard(&self, host: &HostPattern) -> Option<(&HostPattern, &HostMemo)> {
        let suffix = parent(host)?;
        let wildcard = HostPattern::Wildcard { suffix, span: WildcardSpan::OneLabel };
        self.hosts.get_key_value(&wildcard).map(|(wildcard, memo)| (wildcard, &**memo))
    }

    /// The Ingresses that serve a host, and its ownership if hosts below it need to know it.
    pub(super) fn ingresses_serving(
        &self,
        host: &HostPattern,
        above: Option<(&HostPattern, &HostMemo)>,
        hosts: HostOwnership,
    ) -> (HostIngresses, Option<Box<Ownership>>) {
        let keys = self.dependencies.hosts.users_of(host);
        let ingresses: Vec<_> = keys.filter_map(|(_, key)| self.ingresses.get(key).cloned()).collect();
        if hosts == HostOwnership::Off {
            return (HostIngresses::unowned(ingresses), None);
        }
        let mut others = self.claims_on(host);
        let ownership = match host {
            HostPattern::Wildcard { .. } => {
                let mut ownership = Ownership::from_ingresses(&ingresses);
                others.iter().for_each(|(_, claims)| ownership.join(claims));
                Some(ownership)
            }
            HostPattern::Exact(_) | HostPattern::Any => None,
        };
        let ownership = ownership.filter(|it| *it != Ownership::default()).map(Box::new);
        others.extend(above.and_then(|(wildcard, memo)| Some((wildcard, memo.ownership.as_deref()?))));
        (HostIngresses::with_owner(host, ingresses, &others), ownership)
    }

    /// Builds a host, optionally under an alias.
    pub(super) fn build_host(
        &self,
        host: &HostPattern,
        alias: Option<&HostPattern>,
        serving: &HostIngresses,
        above: Option<&HostMemo>,
        inputs: Inputs<'_>,
    ) -> BuiltHost {
        // A wildcard's certificate is only used if both hosts have the same owner, or none.
        let wildcard = above.filter(|memo| memo.owner() == serving.owner.as_ref());
        let inputs = HostInputs {
            context: self.context(inputs),
            services: &self.ingresses.shared,
            certificates: &|key| self.certificates.certificate(key),
            wildcard: wildcard.map(|memo| memo.own_certificate.clone()).unwrap_or_default(),
            alias,
        };
        host::build(host, serving, &inputs)
    }

    /// Stores a host, and releases what it no longer uses.
    fn store_host(&mut self, host: &HostPattern, memo: HostMemo, work: &mut Work) {
        let before = self.hosts.remove(host).unwrap_or_default();
        let is_left = |key: &&BackendKey| memo.backends.binary_search(key).is_err();
        for key in before.backends.iter().filter(is_left) {
            self.release_backend(&BackendUser::Host(host.clone()), key, work);
        }
        let user = CertificateUser::Host(host.clone());
        let (old, new) = (before.certificate.as_deref(), memo.certificate.as_deref());
        work.certificates.extend(self.exchange_certificate(user, old, new));
        self.store_aliases(host, &before.names, &memo.names, work);
        self.hosts.insert(host.clone(), Arc::new(memo));
    }
}
