//! Which Secrets and ConfigMaps the objects of the Gateway API name, as far as they are this controller's: so that
//! a source need not hold any other, and so that a change of one is noticed where it matters. Owns small notes;
//! never an object, and no judgement about what is named.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::gateway_api::{BackendTlsPolicy, Gateway, GatewayClass, ListenerSet};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::policies::SecurityPolicy;
use fairway_objects::references::Difference;
use fairway_objects::users::Users;
use imbl::{OrdMap, OrdSet};

use crate::gateway::gateway_of;
use crate::policies::security;
use crate::{class, frontend, listener, tls_policy};

/// The Secrets and ConfigMaps by what names them. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Naming {
    controller: Arc<str>,
    /// The classes that are this controller's.
    classes: OrdSet<Arc<str>>,
    /// All objects that name something or that others depend on.
    notes: OrdMap<ObjectRef, Note>,
    /// Those that depend on an object: Gateways on classes, ListenerSets on Gateways.
    dependent: Users<ObjectRef, ObjectRef>,
    /// Who names an object.
    users: Users<ObjectRef, ObjectRef>,
    /// Who shows the certificate in a Secret.
    shown: Users<ObjectKey, ObjectRef>,
}

/// What an object names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Note {
    /// What decides whether it is this controller's.
    depends: Option<ObjectRef>,
    named: BTreeSet<ObjectRef>,
    /// Secrets whose certificates are shown.
    certificates: BTreeSet<ObjectKey>,
    /// Whether it is this controller's, and so counts.
    counts: bool,
}

/// What is named from now on, or no longer.
#[derive(Clone, Debug, Default)]
pub struct Noticed {
    /// Secrets and ConfigMaps.
    pub difference: Difference,
    /// Secrets whose certificates are shown from now on, or no longer.
    pub certificates: BTreeSet<ObjectKey>,
}

impl Naming {
    /// Without objects.
    #[must_use]
    pub fn new(controller: &Arc<str>) -> Self {
        Self {
            controller: controller.clone(),
            classes: OrdSet::new(),
            notes: OrdMap::new(),
            dependent: Users::default(),
            users: Users::default(),
            shown: Users::default(),
        }
    }

    /// Takes a GatewayClass as it is now; `None` when it is gone.
    pub fn set_class(&mut self, name: &str, class: Option<&GatewayClass>) -> Noticed {
        let own = class.filter(|class| *class.spec.controller_name == *self.controller);
        match own {
            Some(_) => drop(self.classes.insert(name.into())),
            None => drop(self.classes.remove(name)),
        }
        let named = own.and_then(class::named).into_iter().collect();
        let note = Note { named, ..Note::default() };
        self.set(&class_reference(name), own.map(|_| note))
    }

    /// Takes a Gateway as it is now; `None` when it is gone.
    pub fn set_gateway(&mut self, key: &ObjectKey, gateway: Option<&Gateway>) -> Noticed {
        let note = |gateway: &Gateway| {
            let namespace = &key.namespace;
            let client = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
            let client = client.and_then(|tls| tls.client_certificate_ref.as_ref());
            let certificates: BTreeSet<_> = listener::secrets(&gateway.spec.listeners, namespace)
                .chain(client.and_then(|it| listener::secret(it, namespace)))
                .collect();
            let parameters = gateway.spec.infrastructure.as_ref().and_then(|it| it.parameters_ref.as_ref());
            let parameters =
                parameters.map(|it| ObjectRef::new(Kind::ConfigMap, ObjectKey::new(namespace, &it.name)));
            let named = frontend::named(gateway, namespace).into_iter().chain(parameters);
            Note {
                depends: Some(class_reference(&gateway.spec.gateway_class_name)),
                named: named.chain(certificates.iter().map(secret)).collect(),
                certificates,
                counts: false,
            }
        };
        self.set(&ObjectRef::new(Kind::Gateway, key.clone()), gateway.map(note))
    }

    /// Takes a ListenerSet as it is now; `None` when it is gone.
    pub fn set_listener_set(&mut self, key: &ObjectKey, set: Option<&ListenerSet>) -> Noticed {
        let note = |set: &ListenerSet| {
            let certificates: BTreeSet<_> = listener::secrets(&set.spec.listeners, &key.namespace).collect();
            Some(Note {
                depends: Some(ObjectRef::new(Kind::Gateway, gateway_of(set, &key.namespace)?)),
                named: certificates.iter().map(secret).collect(),
                certificates,
                counts: false,
            })
        };
        self.set(&ObjectRef::new(Kind::ListenerSet, key.clone()), set.and_then(note))
    }

    /// Takes a BackendTLSPolicy as it is now; `None` when it is gone.
    pub fn set_tls_policy(&mut self, key: &ObjectKey, policy: Option<&BackendTlsPolicy>) -> Noticed {
        let note = |policy: &BackendTlsPolicy| {
            let named = tls_policy::named(policy, &key.namespace).into_iter().collect();
            Note { named, ..Note::default() }
        };
        self.set(&ObjectRef::new(Kind::BackendTlsPolicy, key.clone()), policy.map(note))
    }

    /// Takes a SecurityPolicy as it is now; `None` when it is gone.
    pub fn set_security_policy(&mut self, key: &ObjectKey, policy: Option<&SecurityPolicy>) -> Noticed {
        let note = |policy: &SecurityPolicy| {
            let named = security::named(&policy.spec, &key.namespace).into_iter().collect();
            Note { named, ..Note::default() }
        };
        self.set(&ObjectRef::new(Kind::SecurityPolicy, key.clone()), policy.map(note))
    }

    /// What an object names, if it is this controller's.
    pub fn of(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.notes.get(object).filter(|note| note.counts).into_iter().flat_map(|note| &note.named)
    }

    /// Whether anything names it.
    #[must_use]
    pub fn contains(&self, object: &ObjectRef) -> bool {
        self.users.has(object)
    }

    /// All that is named.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectRef> {
        self.users.from(ObjectRef::new(Kind::Ingress, ObjectKey::default())).map(|(object, _)| object)
    }

    /// Who names an object.
    pub(crate) fn users(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.users.of(object)
    }

    /// Whether anything shows the certificate in a Secret.
    #[must_use]
    pub fn shows(&self, secret: &ObjectKey) -> bool {
        self.shown.has(secret)
    }

    /// The Gateways that name a class, and the ListenerSets that name a Gateway.
    pub(crate) fn dependent(&self, object: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.dependent.of(object)
    }

    /// What an object depends on.
    pub(crate) fn depends(&self, object: &ObjectRef) -> Option<&ObjectRef> {
        self.notes.get(object)?.depends.as_ref()
    }

    fn set(&mut self, object: &ObjectRef, note: Option<Note>) -> Noticed {
        let mut noticed = Noticed::default();
        self.count(object, false, &mut noticed);
        if let Some(before) = self.notes.remove(object)
            && let Some(depends) = &before.depends
        {
            self.dependent.remove(depends, object);
        }
        if let Some(note) = note {
            if let Some(depends) = &note.depends {
                self.dependent.add(depends, object.clone());
            }
            self.notes.insert(object.clone(), note);
        }
        self.recount(object, &mut noticed);
        noticed.difference.settle();
        noticed
    }

    /// Counts what is named by an object, and by those that depend on it, where it is this controller's.
    fn recount(&mut self, object: &ObjectRef, noticed: &mut Noticed) {
        let depends = self.notes.get(object).map(|note| note.depends.clone());
        let own = match depends {
            None => false,
            Some(None) => true,
            Some(Some(on)) => match on.kind {
                Kind::GatewayClass => self.classes.contains(&*on.key.name),
                _ => self.notes.get(&on).is_some_and(|note| note.counts),
            },
        };
        self.count(object, own, noticed);
        let dependent: Vec<_> = self.dependent.of(object).cloned().collect();
        for it in dependent {
            self.recount(&it, noticed);
        }
    }

    fn count(&mut self, object: &ObjectRef, counts: bool, noticed: &mut Noticed) {
        let Some(note) = self.notes.get_mut(object) else { return };
        if note.counts == counts {
            return;
        }
        note.counts = counts;
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
    fn only_what_is_this_controllers_names_something() {
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
        assert!(naming.shows(&keys[1]));
        let lost = naming.set_gateway(&edge, None).difference.lost;
        assert_eq!(lost, keys.each_ref().map(secret).into_iter().collect());
        assert_eq!(naming.iter().count(), 0);
    }
}
