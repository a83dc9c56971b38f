//! What an edit touches directly. Owns the first marks; the stages add what follows from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::HostKey;
use fairway_objects::gateway_api::ListenerSet;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Resources;

use crate::gateway::gateway_of;
use crate::listener::ListenerId;
use crate::naming::{Noticed, class_reference};
use crate::noted::Noted;
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
    /// Gateways, ListenerSets, policies and InferencePools whose status must be made.
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
        // The others have no part of their own: they are looked up where something refers to them.
        let all: Vec<ObjectRef> = resources.gateway.with_conditions().collect();
        self.noted = Noted::default();
        self.note(resources, &all)
    }

    /// Takes notice of what changed.
    pub fn note(&mut self, resources: &Resources, changed: &[ObjectRef]) -> Work {
        let mut work = Work::default();
        for object in changed {
            self.note_one(resources, object, &mut work);
        }
        self.noted.keep(resources);
        work
    }

    /// Whether anything shows the certificate in a Secret.
    #[must_use]
    pub fn shows(&self, secret: &ObjectKey) -> bool {
        self.naming.shows(secret)
    }

    fn note_one(&mut self, resources: &Resources, object: &ObjectRef, work: &mut Work) {
        if !self.noted.differs(object, resources) {
            return work.note_status(object);
        }
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
                let noticed = self.naming.set_gateway(key, gateway.gateways.get(key).map(|it| &*it.object));
                work.notice(noticed);
                let named_by = self.naming.dependent(object);
                work.statuses.extend(named_by.filter(|it| it.kind == Kind::ListenerSet).cloned());
                self.mark_gateway(object, work);
            }
            Kind::ListenerSet => {
                work.statuses.insert(object.clone());
                self.note_set(object, gateway.listener_sets.get(key).map(|it| &*it.object), work);
            }
            Kind::BackendTlsPolicy => {
                let policy = gateway.policies.tls.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_tls_policy(key, policy);
                work.notice(noticed);
                work.policies.insert(object.clone());
            }
            Kind::ClientTrafficPolicy | Kind::BackendTrafficPolicy | Kind::ExtensionPolicy => {
                work.policies.insert(object.clone());
            }
            kind if KINDS.contains(&kind) => drop(work.routes.read.insert(object.clone())),
            Kind::SecurityPolicy => {
                let policy = gateway.policies.security.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_security_policy(key, policy);
                work.notice(noticed);
                work.policies.insert(object.clone());
            }
            Kind::InferencePool => {
                work.statuses.insert(object.clone());
                work.routes.read.extend(self.routes.by_pool.of(key).cloned());
            }
            Kind::RouteFilter => work.routes.read.extend(self.routes.by_named.of(object).cloned()),
            Kind::ReferenceGrant => self.mark_foreign(&key.namespace, work),
            Kind::Namespace => self.mark_namespace(resources, &key.name, work),
            Kind::Placement => drop(work.places.insert(key.clone())),
            Kind::Published => work.places.extend(self.shared_gateways().cloned()),
            Kind::Releases => work.classes.extend(gateway.classes.keys().cloned()),
            Kind::ServiceImport => work.routes.read.extend(self.routes.by_service.of(key).cloned()),
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

impl Work {
    /// Marks an object that differs in nothing but its status. What is to be written names the version of the object that it
    /// was made for, so it is made again; the writer then compares it with what the status says now.
    fn note_status(&mut self, object: &ObjectRef) {
        let object = object.clone();
        match object.kind {
            Kind::GatewayClass => drop(self.classes.insert(object.key)),
            kind if KINDS.contains(&kind) => drop(self.routes.told.insert(object)),
            _ => drop(self.statuses.insert(object)),
        }
    }

    fn notice(&mut self, noticed: Noticed) {
        self.certificates.extend(noticed.certificates);
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::inputs::Inputs;
    use fairway_objects::kinds::GATEWAY_KINDS;
    use fairway_objects::object::{DocumentSource, Object};
    use fairway_objects::options::{GATEWAY_CONTROLLER, Options};
    use fairway_objects::resources::Change;
    use fairway_objects::with_custom_resource;
    use serde_json::{Value, json};

    use super::*;
    use crate::listener::Certified;
    use crate::status::GROUP;

    const LISTENING: &[Kind] = &[Kind::Gateway, Kind::ListenerSet];
    const POOLS: &[Kind] = &[Kind::InferencePool];

    fn policies() -> Vec<Kind> {
        [&[Kind::BackendTlsPolicy][..], &policy::KINDS].concat()
    }

    /// An object of each kind that has a status, all with the same fields and the same name.
    struct World {
        resources: Resources,
        options: Options,
        gateways: Gateways,
    }

    impl World {
        fn of(value: &Value) -> Self {
            let options = Options::default();
            let gateways = Gateways::new(&options.gateways.controller);
            let mut world = Self { resources: Resources::default(), options, gateways };
            world.set_parameters("LoadBalancer");
            world.set_all(value, 1);
            let (gateway, placement) = (ObjectKey::new("default", "x"), Some(Arc::default()));
            world.resources.apply(Change::Placed { gateway, placement });
            let work = world.gateways.note_all(&world.resources);
            world.update(work);
            world
        }

        fn set_all(&mut self, value: &Value, line: u32) -> Vec<ObjectRef> {
            let mut changed = Vec::new();
            for known in GATEWAY_KINDS.iter().filter(|known| known.has_conditions) {
                let source = DocumentSource { file: "a.yaml".into(), line, lines: None };
                let change = Change::Set(read(known.kind, value.clone()), Some(source));
                changed.push(change.reference());
                self.resources.apply(change);
            }
            changed
        }

        /// Of the class.
        fn set_parameters(&mut self, service_type: &str) -> ObjectRef {
            let value = json!({"metadata": {"name": "x"}, "data": {"serviceType": service_type}});
            let map = Object::ConfigMap(Arc::new(serde_json::from_value(value).unwrap()));
            let reference = map.reference();
            self.resources.apply(Change::Set(map, None));
            reference
        }

        fn note(&mut self, changed: &[ObjectRef]) -> Work {
            self.gateways.note(&self.resources, changed)
        }

        fn update(&mut self, work: Work) {
            let inputs = Inputs { resources: &self.resources, options: &self.options };
            self.gateways.update(inputs, work, &|_| Certified::Missing);
        }

        /// The Gateways that must be read after the classes were.
        fn after_classes(&mut self, mut work: Work) -> BTreeSet<ObjectKey> {
            let inputs = Inputs { resources: &self.resources, options: &self.options };
            self.gateways.read_classes(inputs, &mut work);
            work.gateways
        }
    }

    fn read(kind: Kind, value: Value) -> Object {
        with_custom_resource!(
            kind,
            K => serde_json::from_value::<K>(value).unwrap().into(),
            _ => panic!("{kind:?} is not read here")
        )
    }

    /// Each kind reads the fields that it has.
    fn written() -> Value {
        let metadata = json!({
            "name": "x", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        let parameters = json!({"group": "", "kind": "ConfigMap", "namespace": "default", "name": "x"});
        let gateway = json!({"group": GROUP, "kind": "Gateway", "name": "x"});
        let service = json!({"group": "", "kind": "Service", "name": "x"});
        let spec = json!({
            "controllerName": GATEWAY_CONTROLLER,
            "parametersRef": parameters,
            "gatewayClassName": "x",
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
            "parentRef": {"name": "x"},
            "parentRefs": [{"name": "x"}],
            "rules": [{"backendRefs": [{"name": "x", "port": 80}]}],
            "targetRefs": [gateway, service],
        });
        json!({"metadata": metadata, "spec": spec})
    }

    /// The same with a status that this controller wrote, as the API server sends it.
    fn with_status() -> Value {
        let mut value = written();
        value["metadata"]["resourceVersion"] = json!("2");
        value["metadata"]["managedFields"] = json!([{"manager": "fairway"}]);
        let to = json!({"name": "x"});
        let entry = json!({
            "controllerName": GATEWAY_CONTROLLER, "parentRef": to, "ancestorRef": to, "conditions": [],
        });
        value["status"] = json!({"conditions": [], "parents": [entry], "ancestors": [entry]});
        value
    }

    fn kinds(marked: &BTreeSet<ObjectRef>) -> Vec<Kind> {
        marked.iter().map(|object| object.kind).collect()
    }

    fn assert_all_are_read(work: &Work, why: &str) {
        assert_eq!(kinds(&work.entries), LISTENING, "{why}");
        assert_eq!(kinds(&work.routes.read), KINDS, "{why}");
        assert_eq!(kinds(&work.policies), policies(), "{why}");
    }

    #[test]
    fn each_kind_whose_status_has_conditions_is_a_class_listens_routes_or_is_a_policy_or_a_pool() {
        let known: Vec<_> = GATEWAY_KINDS.iter().filter(|it| it.has_conditions).map(|it| it.kind).collect();
        assert_eq!(known, [&[Kind::GatewayClass], LISTENING, KINDS, &policies(), POOLS].concat());
    }

    #[test]
    fn an_object_whose_status_comes_back_is_not_read_and_its_status_is_made_for_the_new_version() {
        let mut world = World::of(&written());
        let changed = world.set_all(&with_status(), 1);
        let work = world.note(&changed);
        let marked = [&work.entries, &work.routes.read, &work.routes.finished, &work.policies];
        assert!(marked.iter().all(|objects| objects.is_empty()), "{marked:?}");
        assert_eq!(kinds(&work.routes.told), KINDS);
        assert_eq!(kinds(&work.statuses), [LISTENING, &policies(), POOLS].concat());
        world.update(work);
        let (updated, scratch) = (world.gateways.translation(), World::of(&with_status()));
        assert_eq!(updated, scratch.gateways.translation());
        assert_eq!(updated.statuses.len(), changed.len());
        assert!(updated.statuses.values().all(|status| *status.version == *"2"), "{updated:?}");
    }

    #[test]
    fn an_object_with_another_spec_origin_or_metadata_is_read() {
        type Edit = fn(&mut Value);
        let edits: [(&str, Edit); 5] = [
            ("spec", |value| value["spec"] = json!({})),
            ("uid", |value| value["metadata"]["uid"] = json!("v")),
            ("age", |value| value["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:00Z")),
            ("labels", |value| value["metadata"]["labels"] = json!({"a": "b"})),
            ("annotations", |value| value["metadata"]["annotations"] = json!({"a": "b"})),
        ];
        for (what, edit) in edits {
            let (mut world, mut value) = (World::of(&written()), with_status());
            edit(&mut value);
            let changed = world.set_all(&value, 1);
            assert_all_are_read(&world.note(&changed), what);
        }
        let mut world = World::of(&written());
        let changed = world.set_all(&written(), 2);
        assert_all_are_read(&world.note(&changed), "it is on another line");
        assert!(world.note(&changed).routes.read.is_empty(), "it is as it was noted last");
        changed.iter().for_each(|object| world.resources.apply(Change::Remove(object.clone())));
        assert_all_are_read(&world.note(&changed), "it is gone");
        world.set_all(&written(), 2);
        assert_all_are_read(&world.note(&changed), "it is there again");
    }

    #[test]
    fn a_class_marks_its_gateways_for_other_parameters_and_not_for_its_status() {
        let mut world = World::of(&written());
        let changed = world.set_all(&with_status(), 1);
        let work = world.note(&changed);
        assert_eq!(world.after_classes(work), BTreeSet::new());
        let changed = [world.set_parameters("NodePort")];
        let work = world.note(&changed);
        assert_eq!(world.after_classes(work), [ObjectKey::new("default", "x")].into());
    }
}
