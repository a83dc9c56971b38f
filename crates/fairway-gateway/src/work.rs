//! Marks what a change affects directly; the stages mark what follows from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::HostKey;
use fairway_objects::gateway_api::ListenerSet;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Resources;

use crate::gateway::parent_gateway;
use crate::listener::ListenerId;
use crate::naming::{ReferenceChange, class_reference};
use crate::policy;
use crate::route::{ROUTE_KINDS, Route};
use crate::snapshot::ObjectSnapshot;
use crate::state::Gateways;
use crate::translation::ConfigChanges;

/// Routes to update.
#[derive(Debug, Default)]
pub(crate) struct RouteWork {
    /// Routes to read.
    pub(crate) read: BTreeSet<ObjectRef>,
    /// Routes whose contributions to hosts must be checked.
    pub(crate) contributing: BTreeSet<ObjectRef>,
    /// Routes whose status and diagnostics must be created.
    pub(crate) statuses: BTreeSet<ObjectRef>,
}

/// What must be updated, and the changes so far.
#[derive(Debug, Default)]
pub struct Work {
    pub(crate) classes: BTreeSet<ObjectKey>,
    /// Gateways and ListenerSets whose listeners must be read.
    pub(crate) entries: BTreeSet<ObjectRef>,
    pub(crate) gateways: BTreeSet<ObjectKey>,
    pub(crate) placements: BTreeSet<ObjectKey>,
    /// BackendTLSPolicies and Fairway's own.
    pub(crate) policies: BTreeSet<ObjectRef>,
    pub(crate) routes: RouteWork,
    /// Listeners whose attached routes changed.
    pub(crate) attached: BTreeSet<ListenerId>,
    pub(crate) hosts: BTreeSet<HostKey>,
    /// Gateways, ListenerSets, policies and InferencePools whose status must be created.
    pub(crate) statuses: BTreeSet<ObjectRef>,
    /// Secrets whose certificates became used or unused.
    pub(crate) certificates: BTreeSet<ObjectKey>,
    pub(crate) changes: ConfigChanges,
}

impl Work {
    /// The Secrets that must be read first.
    #[must_use]
    pub fn secrets(&self) -> &BTreeSet<ObjectKey> {
        &self.certificates
    }
}

impl Gateways {
    /// Marks everything.
    pub fn mark_all(&mut self, resources: &Resources) -> Work {
        // The other kinds are looked up where something refers to them.
        let all: Vec<ObjectRef> = resources.gateway.with_conditions().collect();
        self.snapshot = ObjectSnapshot::default();
        self.note(resources, &all)
    }

    /// Marks what the changed objects affect.
    pub fn note(&mut self, resources: &Resources, changed: &[ObjectRef]) -> Work {
        let mut work = Work::default();
        for object in changed {
            self.mark_object(resources, object, &mut work);
        }
        self.snapshot.store(resources);
        work
    }

    /// Whether the certificate in a Secret is used.
    #[must_use]
    pub fn shows(&self, secret: &ObjectKey) -> bool {
        self.naming.shows_certificate(secret)
    }

    fn mark_object(&mut self, resources: &Resources, object: &ObjectRef, work: &mut Work) {
        if !self.snapshot.differs(object, resources) {
            return work.mark_status(object);
        }
        let (key, gateway) = (&object.key, &resources.gateway);
        work.statuses.extend(self.own_policies.policies_for(object).cloned());
        match object.kind {
            Kind::GatewayClass => {
                let class = gateway.classes.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_class(&key.name, class);
                work.mark_reference_change(noticed);
                work.classes.insert(key.clone());
                self.mark_dependent(object, work);
            }
            Kind::Gateway => {
                work.statuses.insert(object.clone());
                let noticed = self.naming.set_gateway(key, gateway.gateways.get(key).map(|it| &*it.object));
                work.mark_reference_change(noticed);
                let named_by = self.naming.dependent(object);
                work.statuses.extend(named_by.filter(|it| it.kind == Kind::ListenerSet).cloned());
                self.mark_gateway(object, work);
            }
            Kind::ListenerSet => {
                work.statuses.insert(object.clone());
                self.mark_listener_set(object, gateway.listener_sets.get(key).map(|it| &*it.object), work);
            }
            Kind::BackendTlsPolicy => {
                let policy = gateway.policies.tls.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_tls_policy(key, policy);
                work.mark_reference_change(noticed);
                work.policies.insert(object.clone());
            }
            Kind::ClientTrafficPolicy | Kind::BackendTrafficPolicy | Kind::ExtensionPolicy => {
                work.policies.insert(object.clone());
            }
            kind if ROUTE_KINDS.contains(&kind) => drop(work.routes.read.insert(object.clone())),
            Kind::SecurityPolicy => {
                let policy = gateway.policies.security.get(key).map(|it| &*it.object);
                let noticed = self.naming.set_security_policy(key, policy);
                work.mark_reference_change(noticed);
                work.policies.insert(object.clone());
            }
            Kind::InferencePool => {
                work.statuses.insert(object.clone());
                work.routes.read.extend(self.routes.by_pool.users_of(key).cloned());
            }
            Kind::RouteFilter => work.routes.read.extend(self.routes.by_named.users_of(object).cloned()),
            Kind::ReferenceGrant => self.mark_foreign(&key.namespace, work),
            Kind::Namespace => self.mark_namespace(resources, &key.name, work),
            Kind::Placement => drop(work.placements.insert(key.clone())),
            Kind::Published => work.placements.extend(self.shared_gateways().cloned()),
            Kind::Releases => work.classes.extend(gateway.classes.keys().cloned()),
            Kind::ServiceImport => work.routes.read.extend(self.routes.by_service.users_of(key).cloned()),
            Kind::Service => {
                work.routes.read.extend(self.routes.by_service.users_of(key).cloned());
                work.policies.extend(self.own_policies.policies_asking(key).cloned());
                work.policies.extend(self.policies_for(key));
            }
            Kind::Secret | Kind::ConfigMap => {
                let users: Vec<_> = self.naming.referrers(object).cloned().collect();
                users.iter().for_each(|user| self.mark_referrer(user, work));
            }
            _ => {}
        }
    }

    fn mark_listener_set(&mut self, object: &ObjectRef, set: Option<&ListenerSet>, work: &mut Work) {
        let key = &object.key;
        work.gateways.extend(self.gateway_of_set(object));
        let noticed = self.naming.set_listener_set(key, set);
        work.mark_reference_change(noticed);
        work.gateways.extend(set.and_then(|set| parent_gateway(set, &key.namespace)));
        work.entries.insert(object.clone());
    }

    /// Marks an object that refers to a changed one.
    fn mark_referrer(&self, object: &ObjectRef, work: &mut Work) {
        match object.kind {
            Kind::GatewayClass => drop(work.classes.insert(object.key.clone())),
            Kind::Gateway => self.mark_gateway(object, work),
            Kind::ListenerSet => {
                work.entries.insert(object.clone());
                work.gateways.extend(self.gateway_of_set(object));
            }
            Kind::BackendTlsPolicy => drop(work.policies.insert(object.clone())),
            kind if policy::POLICY_KINDS.contains(&kind) => drop(work.policies.insert(object.clone())),
            kind if ROUTE_KINDS.contains(&kind) => drop(work.routes.read.insert(object.clone())),
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
        for object in self.listening.foreign.users_of(namespace) {
            self.mark_referrer(object, work);
        }
    }

    /// A namespace's labels decide whether its routes and ListenerSets may be attached.
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
        work.routes.read.extend(Route::in_namespace(namespace, resources));
    }

    fn gateway_of_set(&self, set: &ObjectRef) -> Option<ObjectKey> {
        self.naming.dependency(set).map(|gateway| gateway.key.clone())
    }

    /// The class with this name, if it belongs to this controller.
    pub(crate) fn class_of(&self, class: &str) -> Option<&Arc<crate::class::Class>> {
        self.listening.classes.get(&class_reference(class).key)
    }
}

impl Work {
    /// Marks an object of which only the status changed. A pending status names the version it was derived from, so
    /// it is created again; the writer then compares it with the new status.
    fn mark_status(&mut self, object: &ObjectRef) {
        let object = object.clone();
        match object.kind {
            Kind::GatewayClass => drop(self.classes.insert(object.key)),
            kind if ROUTE_KINDS.contains(&kind) => drop(self.routes.statuses.insert(object)),
            _ => drop(self.statuses.insert(object)),
        }
    }

    fn mark_reference_change(&mut self, noticed: ReferenceChange) {
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
    use crate::listener::CertificateState;
    use crate::status::GATEWAY_GROUP;

    const LISTENING: &[Kind] = &[Kind::Gateway, Kind::ListenerSet];
    const POOLS: &[Kind] = &[Kind::InferencePool];

    fn policies() -> Vec<Kind> {
        [&[Kind::BackendTlsPolicy][..], &policy::POLICY_KINDS].concat()
    }

    /// An object of each kind that has a status, all with the same fields and the same name.
    struct TestWorld {
        resources: Resources,
        options: Options,
        gateways: Gateways,
    }

    impl TestWorld {
        fn from_value(value: &Value) -> Self {
            let options = Options::default();
            let gateways = Gateways::new(&options.gateways.controller);
            let mut world = Self { resources: Resources::default(), options, gateways };
            world.set_parameters("LoadBalancer");
            world.set_all(value, 1);
            let (gateway, placement) = (ObjectKey::new("default", "x"), Some(Arc::default()));
            world.resources.apply(Change::Placed { gateway, placement });
            let work = world.gateways.mark_all(&world.resources);
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
            self.gateways.update(inputs, work, &|_| CertificateState::Missing);
        }

        /// The Gateways to read after the classes.
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
        let gateway = json!({"group": GATEWAY_GROUP, "kind": "Gateway", "name": "x"});
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
        assert_eq!(kinds(&work.routes.read), ROUTE_KINDS, "{why}");
        assert_eq!(kinds(&work.policies), policies(), "{why}");
    }

    #[test]
    fn every_kind_with_conditions_is_tracked() {
        let known: Vec<_> = GATEWAY_KINDS.iter().filter(|it| it.has_conditions).map(|it| it.kind).collect();
        assert_eq!(known, [&[Kind::GatewayClass], LISTENING, ROUTE_KINDS, &policies(), POOLS].concat());
    }

    #[test]
    fn a_status_change_is_not_read_but_updates_the_pending_status() {
        let mut world = TestWorld::from_value(&written());
        let changed = world.set_all(&with_status(), 1);
        let work = world.note(&changed);
        let marked = [&work.entries, &work.routes.read, &work.routes.contributing, &work.policies];
        assert!(marked.iter().all(|objects| objects.is_empty()), "{marked:?}");
        assert_eq!(kinds(&work.routes.statuses), ROUTE_KINDS);
        assert_eq!(kinds(&work.statuses), [LISTENING, &policies(), POOLS].concat());
        world.update(work);
        let (updated, scratch) = (world.gateways.translation(), TestWorld::from_value(&with_status()));
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
            let (mut world, mut value) = (TestWorld::from_value(&written()), with_status());
            edit(&mut value);
            let changed = world.set_all(&value, 1);
            assert_all_are_read(&world.note(&changed), what);
        }
        let mut world = TestWorld::from_value(&written());
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
        let mut world = TestWorld::from_value(&written());
        let changed = world.set_all(&with_status(), 1);
        let work = world.note(&changed);
        assert_eq!(world.after_classes(work), BTreeSet::new());
        let changed = [world.set_parameters("NodePort")];
        let work = world.note(&changed);
        assert_eq!(world.after_classes(work), [ObjectKey::new("default", "x")].into());
    }
}
