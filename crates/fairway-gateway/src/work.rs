//! What an edit touches directly. Owns the first marks; the stages add what follows from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_gateway_types::ListenerSet;
use fairway_model::HostKey;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};
use fairway_objects::resources::Resources;
use imbl::OrdMap;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::gateway::gateway_of;
use crate::listener::ListenerId;
use crate::naming::{Noticed, class_reference};
use crate::policy;
use crate::route::{KINDS, Route};
use crate::state::Gateways;
use crate::translation::Pieces;

/// The routes that must be looked at again.
#[derive(Debug, Default)]
pub(crate) struct RouteWork {
    /// Those that must be read.
    pub(crate) read: BTreeSet<ObjectRef>,
    /// Those whose part in hosts must be looked at.
    pub(crate) finished: BTreeSet<ObjectRef>,
    /// Those whose status and diagnostics must be made.
    pub(crate) told: BTreeSet<ObjectRef>,
}

/// What must be looked at again, and what came of it so far.
#[derive(Debug, Default)]
pub struct Work {
    pub(crate) classes: BTreeSet<ObjectKey>,
    /// Gateways and ListenerSets whose listeners must be read.
    pub(crate) entries: BTreeSet<ObjectRef>,
    pub(crate) gateways: BTreeSet<ObjectKey>,
    pub(crate) places: BTreeSet<ObjectKey>,
    /// BackendTLSPolicies, and Fairway's own.
    pub(crate) policies: BTreeSet<ObjectRef>,
    pub(crate) routes: RouteWork,
    /// Listeners to which other routes are attached.
    pub(crate) attached: BTreeSet<ListenerId>,
    pub(crate) hosts: BTreeSet<HostKey>,
    /// Gateways, ListenerSets and policies whose status must be made.
    pub(crate) statuses: BTreeSet<ObjectRef>,
    /// Secrets whose certificates are shown from now on, or no longer.
    pub(crate) certificates: BTreeSet<ObjectKey>,
    pub(crate) pieces: Pieces,
}

impl Work {
    /// The Secrets that must be read before anything else.
    #[must_use]
    pub fn secrets(&self) -> &BTreeSet<ObjectKey> {
        &self.certificates
    }
}

impl Gateways {
    /// Takes notice of everything.
    pub fn note_all(&mut self, resources: &Resources) -> Work {
        let gateway = &resources.gateway;
        let of = |kind| move |key: &ObjectKey| ObjectRef::new(kind, key.clone());
        let all: Vec<ObjectRef> = (gateway.classes.keys().map(of(Kind::GatewayClass)))
            .chain(gateway.gateways.keys().map(of(Kind::Gateway)))
            .chain(gateway.listener_sets.keys().map(of(Kind::ListenerSet)))
            .chain(gateway.policies.tls.keys().map(of(Kind::BackendTlsPolicy)))
            .chain(gateway.policies.clients.keys().map(of(Kind::ClientTrafficPolicy)))
            .chain(gateway.policies.backends.keys().map(of(Kind::BackendTrafficPolicy)))
            .chain(gateway.policies.security.keys().map(of(Kind::SecurityPolicy)))
            .chain(Route::all(resources))
            .collect();
        self.note(resources, &all)
    }

    /// Takes notice of what changed.
    pub fn note(&mut self, resources: &Resources, changed: &[ObjectRef]) -> Work {
        let mut work = Work::default();
        for object in changed {
            self.note_one(resources, object, &mut work);
        }
        work
    }

    /// Whether anything shows the certificate in a Secret.
    #[must_use]
    pub fn shows(&self, secret: &ObjectKey) -> bool {
        self.naming.shows(secret)
    }

    fn note_one(&mut self, resources: &Resources, object: &ObjectRef, work: &mut Work) {
        let (key, gateway) = (&object.key, &resources.gateway);
        work.statuses.extend(self.attached.of(object).cloned());
        match object.kind {
            Kind::GatewayClass => {
                let class = gateway.classes.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_class(&key.name, class);
                work.notice(noticed);
                work.classes.insert(key.clone());
                self.mark_dependent(object, work);
            }
            Kind::Gateway => {
                work.statuses.insert(object.clone());
                let now = gateway.gateways.get(key);
                if exchange(&mut self.listening.gateways, key, now, |a, b| a.spec == b.spec) {
                    let noticed = self.naming.set_gateway(key, now.map(|it| &*it.object));
                    work.notice(noticed);
                    let named_by = self.naming.dependent(object);
                    work.statuses.extend(named_by.filter(|it| it.kind == Kind::ListenerSet).cloned());
                    self.mark_gateway(object, work);
                }
            }
            Kind::ListenerSet => {
                work.statuses.insert(object.clone());
                let now = gateway.listener_sets.get(key);
                if exchange(&mut self.listening.sets, key, now, |a, b| a.spec == b.spec) {
                    self.note_set(object, now.map(|it| &*it.object), work);
                }
            }
            Kind::BackendTlsPolicy => {
                let policy = gateway.policies.tls.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_tls_policy(key, policy);
                work.notice(noticed);
                work.policies.insert(object.clone());
            }
            Kind::ClientTrafficPolicy | Kind::BackendTrafficPolicy => {
                work.policies.insert(object.clone());
            }
            kind if KINDS.contains(&kind) => drop(work.routes.read.insert(object.clone())),
            Kind::SecurityPolicy => {
                let policy = gateway.policies.security.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_security_policy(key, policy);
                work.notice(noticed);
                work.policies.insert(object.clone());
            }
            Kind::ReferenceGrant => self.mark_foreign(&key.namespace, work),
            Kind::Namespace => self.mark_namespace(resources, &key.name, work),
            Kind::Placement => drop(work.places.insert(key.clone())),
            Kind::Releases => work.classes.extend(gateway.classes.keys().cloned()),
            Kind::Service => {
                work.routes.read.extend(self.routes.by_service.of(key).cloned());
                work.policies.extend(self.attached.asking(key).cloned());
                work.policies.extend(self.policies_for(key));
            }
            Kind::Secret | Kind::ConfigMap => {
                let users: Vec<_> = self.naming.users(object).cloned().collect();
                users.iter().for_each(|user| self.mark(user, work));
            }
            _ => {}
        }
    }

    fn note_set(&mut self, object: &ObjectRef, set: Option<&ListenerSet>, work: &mut Work) {
        let key = &object.key;
        work.gateways.extend(self.gateway_of_set(object));
        let noticed = self.naming.set_listener_set(key, set);
        work.notice(noticed);
        work.gateways.extend(set.and_then(|set| gateway_of(set, &key.namespace)));
        work.entries.insert(object.clone());
    }

    /// Marks an object that refers to something that changed.
    fn mark(&self, object: &ObjectRef, work: &mut Work) {
        match object.kind {
            Kind::GatewayClass => drop(work.classes.insert(object.key.clone())),
            Kind::Gateway => self.mark_gateway(object, work),
            Kind::ListenerSet => {
                work.entries.insert(object.clone());
                work.gateways.extend(self.gateway_of_set(object));
            }
            Kind::BackendTlsPolicy => drop(work.policies.insert(object.clone())),
            kind if policy::KINDS.contains(&kind) => drop(work.policies.insert(object.clone())),
            kind if KINDS.contains(&kind) => drop(work.routes.read.insert(object.clone())),
            _ => {}
        }
    }

    fn mark_gateway(&self, gateway: &ObjectRef, work: &mut Work) {
        work.entries.insert(gateway.clone());
        work.gateways.insert(gateway.key.clone());
    }

    /// Marks the Gateways of a class.
    pub(crate) fn mark_dependent(&self, class: &ObjectRef, work: &mut Work) {
        let gateways = self.naming.dependent(class).filter(|it| it.kind == Kind::Gateway);
        work.gateways.extend(gateways.map(|it| it.key.clone()));
    }

    fn mark_foreign(&self, namespace: &Arc<str>, work: &mut Work) {
        for object in self.listening.foreign.of(namespace) {
            self.mark(object, work);
        }
    }

    /// The labels of a namespace decide which of its routes and ListenerSets may be attached.
    fn mark_namespace(&self, resources: &Resources, namespace: &str, work: &mut Work) {
        let gateway = &resources.gateway;
        let sets = gateway
            .listener_sets
            .range(ObjectKey::new(namespace, "")..)
            .take_while(|(key, _)| *key.namespace == *namespace);
        for (key, _) in sets {
            let set = ObjectRef::new(Kind::ListenerSet, key.clone());
            work.gateways.extend(self.gateway_of_set(&set));
        }
        work.routes.read.extend(Route::within(namespace, resources));
    }

    fn gateway_of_set(&self, set: &ObjectRef) -> Option<ObjectKey> {
        self.naming.depends(set).map(|gateway| gateway.key.clone())
    }

    /// Whether a Gateway is of a class of this controller.
    pub(crate) fn class_of(&self, class: &str) -> Option<&Arc<crate::class::Class>> {
        self.listening.classes.get(&class_reference(class).key)
    }
}

/// Keeps an object in the place of the earlier one; says whether it differs in more than what this controller
/// writes itself. A status that is written comes back as a change, and must not cost what a change costs.
fn exchange<T: Metadata<Ty = ObjectMeta>>(
    kept: &mut OrdMap<ObjectKey, Sourced<T>>,
    key: &ObjectKey,
    now: Option<&Sourced<T>>,
    same: impl FnOnce(&T, &T) -> bool,
) -> bool
where
    Sourced<T>: Clone,
{
    let before = match now {
        Some(now) => kept.insert(key.clone(), now.clone()),
        None => kept.remove(key),
    };
    match (before, now) {
        (Some(before), Some(now)) => {
            // One that was made anew owns nothing of the earlier one, also where both are of the same second.
            let made = |it: &T| (it.metadata().creation_timestamp.clone(), it.metadata().uid.clone());
            let (old, new) = (&*before.object, &*now.object);
            before.source != now.source || made(old) != made(new) || !same(old, new)
        }
        _ => true,
    }
}

impl Work {
    fn notice(&mut self, noticed: Noticed) {
        self.certificates.extend(noticed.certificates);
    }
}
