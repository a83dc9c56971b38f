//! Tracks which Secrets and ConfigMaps are referenced by this controller's Gateway API objects, so that a source need
//! not keep others, and changes are noticed.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::gateway_api::{BackendTlsPolicy, Gateway, GatewayClass, ListenerSet};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::policies::SecurityPolicy;
use fairway_objects::references::ReferenceChanges;
use fairway_objects::users::ReverseIndex;
use imbl::{OrdMap, OrdSet};

use crate::gateway::parent_gateway;
use crate::policies::security;
use crate::{class, frontend, listener, tls_policy};

/// Referenced Secrets and ConfigMaps. Cloning is free.
#[derive(Clone, Debug)]
pub struct Naming {
    controller: Arc<str>,
    /// The classes of this controller.
    classes: OrdSet<Arc<str>>,
    /// All objects that reference something or that others depend on.
    objects: OrdMap<ObjectRef, ObjectReferences>,
    /// Dependents of an object: Gateways of classes, and ListenerSets of Gateways.
    dependents: ReverseIndex<ObjectRef, ObjectRef>,
    /// Objects that reference an object.
    users: ReverseIndex<ObjectRef, ObjectRef>,
    /// Objects that use the certificate in a Secret.
    shown: ReverseIndex<ObjectKey, ObjectRef>,
}

/// References of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObjectReferences {
    /// The object that decides whether it belongs to this controller.
    depends_on: Option<ObjectRef>,
    named: BTreeSet<ObjectRef>,
    /// Secrets whose certificates it uses.
    certificates: BTreeSet<ObjectKey>,
    /// Whether it belongs to this controller, so that its references count.
    is_counted: bool,
}

/// Changed references.
#[derive(Clone, Debug, Default)]
pub struct ReferenceChange {
    /// Secrets and ConfigMaps that became referenced or unreferenced.
    pub difference: ReferenceChanges,
    /// Secrets whose certificates became used or unused.
    pub certificates: BTreeSet<ObjectKey>,
}

impl Naming {
    /// An empty index.
    #[must_use]
    pub fn new(controller: &Arc<str>) -> Self {
        Self {
            controller: controller.clone(),
            classes: OrdSet::new(),
            objects: OrdMap::new(),
            dependents: ReverseIndex::default(),
            users: ReverseIndex::default(),
            shown: ReverseIndex::default(),
        }
    }

    /// Updates a GatewayClass; `None` deletes it.
    pub fn set_class(&mut self, name: &str, class: Option<&GatewayClass>) -> ReferenceChange {
        let own_class = class.filter(|class| *class.spec.controller_name == *self.controller);
        match own_class {
            Some(_) => drop(self.classes.insert(name.into())),
            None => drop(self.classes.remove(name)),
        }
        let named = own_class.and_then(class::parameters_reference).into_iter().collect();
        let note = ObjectReferences { named, ..ObjectReferences::default() };
        self.set(&class_reference(name), own_class.map(|_| note))
    }

    /// Updates a Gateway; `None` deletes it.
    pub fn set_gateway(&mut self, key: &ObjectKey, gateway: Option<&Gateway>) -> ReferenceChange {
        let note = |gateway: &Gateway| {
            let namespace = &key.namespace;
            let client = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
            let client = client.and_then(|tls| tls.client_certificate_ref.as_ref());
            let certificates: BTreeSet<_> = listener::named_secrets(&gateway.spec.listeners, namespace)
                .chain(client.and_then(|it| listener::secret_key(it, namespace)))
                .collect();
            let parameters = gateway.spec.infrastructure.as_ref().and_then(|it| it.parameters_ref.as_ref());
            let parameters =
                parameters.map(|it| ObjectRef::new(Kind::ConfigMap, ObjectKey::new(namespace, &it.name)));
            let named = frontend::named_references(gateway, namespace).into_iter().chain(parameters);
            ObjectReferences {
                depends_on: Some(class_reference(&gateway.spec.gateway_class_name)),
                named: named.chain(certificates.iter().map(secret)).collect(),
                certificates,
                is_counted: false,
            }
        };
        self.set(&ObjectRef::new(Kind::Gateway, key.clone()), gateway.map(note))
    }

    /// Updates a ListenerSet; `None` deletes it.
    pub fn set_listener_set(&mut self, key: &ObjectKey, set: Option<&ListenerSet>) -> ReferenceChange {
        let note = |set: &ListenerSet| {
            let certificates: BTreeSet<_> =
                listener::named_secrets(&set.spec.listeners, &key.namespace).collect();
            Some(ObjectReferences {
                depends_on: Some(ObjectRef::new(Kind::Gateway, parent_gateway(set, &key.namespace)?)),
                named: certificates.iter().map(secret).collect(),
                certificates,
                is_counted: false,
            })
        };
        self.set(&ObjectRef::new(Kind::ListenerSet, key.clone()), set.and_then(note))
    }

    /// Updates a BackendTLSPolicy; `None` deletes it.
    pub fn set_tls_policy(&mut self, key: &ObjectKey, policy: Option<&BackendTlsPolicy>) -> ReferenceChange {
        let note = |policy: &BackendTlsPolicy| {
            let named = tls_policy::named_references(policy, &key.namespace).into_iter().collect();
            ObjectReferences { named, ..ObjectReferences::default() }
        };
        self.set(&ObjectRef::new(Kind::BackendTlsPolicy, key.clone()), policy.map(note))
    }

    /// Updates a SecurityPolicy; `None` deletes it.
    pub fn set_security_policy(
        &mut self,
        key: &ObjectKey,
        policy: Option<&SecurityPolicy>,
    ) -> ReferenceChange {
        let note = |policy: &SecurityPolicy| {
            let named = security::named_references(&policy.spec, &key.namespace).into_iter().collect();
            ObjectReferences { named, ..ObjectReferences::default() }
        };
        self.set(&ObjectRef::new(Kind::SecurityPolicy, key.clone()), policy.map(note))
    }

    /// The references of an object of this controller.
    pub fn references_of(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.objects.get(object).filter(|note| note.is_counted).into_iter().flat_map(|note| &note.named)
    }

    /// Whether an object is referenced.
    #[must_use]
    pub fn contains(&self, object: &ObjectRef) -> bool {
        self.users.has(object)
    }

    /// All referenced objects.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectRef> {
        self.users.from(ObjectRef::new(Kind::Ingress, ObjectKey::default())).map(|(object, _)| object)
    }

    /// The objects that reference an object.
    pub(crate) fn referrers(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.users.users_of(object)
    }

    /// Whether the certificate in a Secret is used.
    #[must_use]
    pub fn shows_certificate(&self, secret: &ObjectKey) -> bool {
        self.shown.has(secret)
    }

    /// The Gateways of a class, or the ListenerSets of a Gateway.
    pub(crate) fn dependent(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.dependents.users_of(object)
    }

    /// The object that an object depends on.
    pub(crate) fn dependency(&self, object: &ObjectRef) -> Option<&ObjectRef> {
        self.objects.get(object)?.depends_on.as_ref()
    }

    fn set(&mut self, object: &ObjectRef, note: Option<ObjectReferences>) -> ReferenceChange {
        let mut noticed = ReferenceChange::default();
        self.count(object, false, &mut noticed);
        if let Some(before) = self.objects.remove(object)
            && let Some(depends) = &before.depends_on
        {
            self.dependents.remove(depends, object);
        }
        if let Some(note) = note {
            if let Some(depends) = &note.depends_on {
                self.dependents.add(depends, object.clone());
            }
            self.objects.insert(object.clone(), note);
        }
        self.recount(object, &mut noticed);
        noticed.difference.cancel_out();
        noticed
    }

    /// Counts or uncounts the references of an object and its dependents, depending on whether they belong to this
    /// controller.
    fn recount(&mut self, object: &ObjectRef, noticed: &mut ReferenceChange) {
        let depends = self.objects.get(object).map(|note| note.depends_on.clone());
        let keys = match depends {
            None => false,
            Some(None) => true,
            Some(Some(on)) => match on.kind {
                Kind::GatewayClass => self.classes.contains(&*on.key.name),
                _ => self.objects.get(&on).is_some_and(|note| note.is_counted),
            },
        };
        self.count(object, keys, noticed);
        let dependent: Vec<_> = self.dependents.users_of(object).cloned().collect();
        for it in dependent {
            self.recount(&it, noticed);
        }
    }

    fn count(&mut self, object: &ObjectRef, counts: bool, noticed: &mut ReferenceChange) {
        let Some(note) = self.objects.get_mut(object) else { return };
        if note.is_counted == counts {
            return;
        }
        note.is_counted = counts;
        for named in &note.named {
            let before = self.users.has(named);
            match counts {
                true => self.users.add(named, object.clone()),
                false => self.users.remove(named, object),
            }
            match (before, self.users.has(named)) {
                (false, true) => drop(noticed.difference.gained.insert(named.clone())),
                (true, false) => drop(noticed.difference.lost.insert(named.clone())),
                _ => {}
            }
        }
        for secret in &note.certificates {
            match counts {
                true => self.shown.add(secret, object.clone()),
                false => self.shown.remove(secret, object),
            }
            noticed.certificates.insert(secret.clone());
        }
    }
}

fn secret(key: &ObjectKey) -> ObjectRef {
    ObjectRef::new(Kind::Secret, key.clone())
}

pub(crate) fn class_reference(name: &str) -> ObjectRef {
    ObjectRef::new(Kind::GatewayClass, ObjectKey::new("", name))
}

#[cfg(test)]
mod tests {
    use fairway_objects::gateway_api::{Listener, ListenerTls, ObjectReference};

    use super::*;

    fn listeners(secret: &str) -> Vec<Listener> {
        let reference = ObjectReference { name: secret.into(), ..ObjectReference::default() };
        let tls = ListenerTls { certificate_refs: vec![reference], ..ListenerTls::default() };
        vec![Listener { tls: Some(tls), ..Listener::default() }]
    }

    #[test]
    fn only_objects_of_this_controller_count() {
        let mut naming = Naming::new(&"ours".into());
        let (edge, more) = (ObjectKey::new("a", "edge"), ObjectKey::new("b", "more"));
        let mut set = ListenerSet::default();
        set.spec.listeners = listeners("set");
        set.spec.parent_ref = ObjectReference {
            name: "edge".into(),
            namespace: Some("a".into()),
            ..ObjectReference::default()
        };
        let mut gateway = Gateway::default();
        gateway.spec.gateway_class_name = "c".into();
        gateway.spec.listeners = listeners("own");
        assert!(naming.set_listener_set(&more, Some(&set)).difference.gained.is_empty());
        assert!(naming.set_gateway(&edge, Some(&gateway)).difference.gained.is_empty());
        let mut class = GatewayClass::default();
        class.spec.controller_name = "ours".into();
        let gained = naming.set_class("c", Some(&class)).difference.gained;
        let keys = [ObjectKey::new("a", "own"), ObjectKey::new("b", "set")];
        assert_eq!(gained, keys.each_ref().map(secret).into_iter().collect());
        assert!(naming.shows_certificate(&keys[1]));
        let lost = naming.set_gateway(&edge, None).difference.lost;
        assert_eq!(lost, keys.each_ref().map(secret).into_iter().collect());
        assert_eq!(naming.iter().count(), 0);
    }
}
