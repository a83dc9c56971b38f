//! Builds the marked backends, and removes unused ones.

use std::sync::Arc;

use fairway_model::{Backend, BackendKey};
use fairway_objects::backend::{self, BackendAddressSource, BackendRef, ResolvedTarget};
use fairway_objects::diagnostic::DiagnosticScope;
use fairway_objects::few::SmallSet;
use fairway_objects::inputs::Inputs;
use fairway_objects::insertion_order::filling;
use fairway_objects::object::ObjectKey;
use fairway_objects::resources::Resources;
use imbl::OrdMap;

use crate::translator::state::{BackendMemo, BackendUser, CertificateUser, TranslatorState};
use crate::translator::work::Work;

/// Sets or removes the owner of a slice; returns the previous owner.
fn replace_owner(
    owners: &mut OrdMap<ObjectKey, ObjectKey>,
    slice: &ObjectKey,
    owner: Option<&ObjectKey>,
) -> Option<ObjectKey> {
    match owner {
        Some(owner) => owners.insert(slice.clone(), owner.clone()),
        None => owners.remove(slice),
    }
}

impl TranslatorState {
    /// Marks the backends of changed slices, for the current and the previous Service.
    pub(super) fn assign_slices(&mut self, resources: &Resources, work: &mut Work) {
        for key in filling(std::mem::take(&mut work.slices)) {
            let slice = resources.slices.get(&key).map(|slice| &slice.object);
            let service = slice.and_then(|slice| slice.service());
            let import = slice.and_then(|slice| slice.import());
            let service_before = replace_owner(&mut self.slice_services, &key, service.as_ref());
            let import_before = replace_owner(&mut self.slice_imports, &key, import.as_ref());
            for named in [service, service_before, import, import_before].iter().flatten() {
                work.backends.extend(self.dependencies.backends.users_of(named).cloned());
            }
        }
    }

    /// Records a user of a backend, and marks the backend if it is new.
    pub(super) fn use_backend(&mut self, user: BackendUser, reference: BackendRef, work: &mut Work) {
        let key = reference.key.clone();
        match self.backends.get_mut(&key) {
            Some(memo) => {
                let memo = Arc::make_mut(memo);
                memo.users.insert(user);
                if memo.reference != reference {
                    memo.reference = reference;
                    work.backends.insert(key);
                }
            }
            None => {
                self.dependencies.backends.add(&reference.service, key.clone());
                if reference.via == BackendAddressSource::Pool {
                    self.dependencies.pools.add(&reference.service.namespace, key.clone());
                }
                let users = SmallSet::single(user);
                let memo = BackendMemo { reference, users, external: None, certificate: None };
                self.backends.insert(key.clone(), Arc::new(memo));
                work.backends.insert(key);
            }
        }
    }

    /// Removes a user of a backend, and marks the backend if it was the last.
    pub(super) fn release_backend(&mut self, user: &BackendUser, key: &BackendKey, work: &mut Work) {
        if let Some(memo) = self.backends.get_mut(key).map(Arc::make_mut) {
            memo.users.remove(user);
            if memo.users.is_empty() {
                work.backends.insert(key.clone());
            }
        }
    }

    /// Builds backends, and removes unused ones.
    pub(super) fn make_backends(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for key in filling(std::mem::take(&mut work.backends)) {
            let Some(mut memo) = self.backends.remove(&key).map(Arc::unwrap_or_clone) else { continue };
            let used = !memo.users.is_empty();
            let built = used.then(|| backend::build(&memo.reference, inputs)).flatten();
            let external = match memo.reference.resolve(inputs) {
                Ok(ResolvedTarget::External(name)) if used => name.name_to_resolve().cloned(),
                _ => None,
            };
            self.exchange_external(&key, memo.external.as_ref(), external.as_ref());
            let certificate = memo.reference.transport.client_certificate().filter(|_| used).cloned();
            let user = CertificateUser::Backend(key.clone());
            let secrets = self.exchange_certificate(user, memo.certificate.as_deref(), certificate.as_ref());
            work.certificates.extend(secrets);
            let (made, diagnostics) = built.unzip();
            self.current
                .diagnostics
                .replace(DiagnosticScope::Backend(key.0.clone()), diagnostics.unwrap_or_default());
            self.set_backend(&key, made);
            if used {
                (memo.external, memo.certificate) = (external, certificate.map(Box::new));
                self.backends.insert(key, Arc::new(memo));
            } else {
                let BackendRef { service, via, .. } = &memo.reference;
                self.dependencies.backends.remove(service, &key);
                if *via == BackendAddressSource::Pool {
                    self.dependencies.pools.remove(&service.namespace, &key);
                }
            }
        }
    }

    fn set_backend(&mut self, key: &BackendKey, backend: Option<Backend>) {
        let backends = &mut self.current.config.backends;
        match backend {
            None => drop(backends.remove(key)),
            Some(made) if backends.get(key).is_some_and(|before| **before == made) => {}
            Some(made) => drop(backends.insert(key.clone(), Arc::new(made))),
        }
    }

    fn exchange_external(&mut self, key: &BackendKey, before: Option<&Arc<str>>, after: Option<&Arc<str>>) {
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
}
