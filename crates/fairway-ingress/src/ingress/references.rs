//! Tracks which Secrets and ConfigMaps are referenced by served Ingresses, the settings and Gateways, so that a
//! source can drop all others. Stores only references, no objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_gateway::Naming as GatewayNaming;
use fairway_objects::object::{Kind, Object, ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_objects::references::{ReferenceChanges, ReferenceCounts};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

use crate::ingress::class::{Classes, NamedClass};
use crate::ingress::reader::Annotations;
use crate::ingress::{referenced, settings};

/// Referenced Secrets and ConfigMaps.
#[derive(Clone, Debug)]
pub struct References {
    options: Options,
    objects: BTreeMap<Arc<str>, Arc<IngressClass>>,
    classes: Classes,
    ingresses: BTreeMap<ObjectKey, IngressReferences>,
    /// References of the settings ConfigMap, without duplicates.
    settings: Box<[ObjectRef]>,
    /// Reference counts by object.
    users: ReferenceCounts,
    /// References of Gateway API objects.
    gateways: GatewayNaming,
}

/// An Ingress that references something.
#[derive(Clone, Debug)]
struct IngressReferences {
    class: NamedClass,
    /// Without duplicates.
    named: Box<[ObjectRef]>,
    served: bool,
}

impl References {
    /// No object is referenced yet.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            classes: Classes::from_objects(std::iter::empty(), options),
            gateways: GatewayNaming::new(&options.gateways.controller),
            options: options.clone(),
            objects: BTreeMap::new(),
            ingresses: BTreeMap::new(),
            settings: [].into(),
            users: ReferenceCounts::default(),
        }
    }

    /// Updates an object, or removes it for `None`, if its kind matters for references.
    pub fn set(
        &mut self,
        ObjectRef { kind, key }: &ObjectRef,
        object: Option<&Object>,
    ) -> Option<ReferenceChanges> {
        macro_rules! typed {
            ($kind:ident) => {
                match object {
                    Some(Object::$kind(it)) => Some(&**it),
                    _ => None,
                }
            };
        }
        let noticed = match kind {
            Kind::Ingress => return Some(self.set_ingress(key, typed!(Ingress))),
            Kind::IngressClass => return Some(self.set_class(&key.name, typed!(IngressClass))),
            Kind::ConfigMap => return Some(self.set_config_map(key, typed!(ConfigMap))),
            Kind::GatewayClass => self.gateways.set_class(&key.name, typed!(GatewayClass)),
            Kind::Gateway => self.gateways.set_gateway(key, typed!(Gateway)),
            Kind::ListenerSet => self.gateways.set_listener_set(key, typed!(ListenerSet)),
            Kind::BackendTlsPolicy => self.gateways.set_tls_policy(key, typed!(BackendTlsPolicy)),
            Kind::SecurityPolicy => self.gateways.set_security_policy(key, typed!(SecurityPolicy)),
            _ => return None,
        };
        Some(self.apart_from_ingresses(noticed.difference))
    }

    /// Updates an IngressClass; `None` deletes it.
    fn set_class(&mut self, name: &str, class: Option<&IngressClass>) -> ReferenceChanges {
        match class {
            Some(class) => drop(self.objects.insert(name.into(), Arc::new(class.clone()))),
            None => drop(self.objects.remove(name)),
        }
        let objects = self.objects.iter().map(|(name, class)| (name.clone(), class.clone()));
        let classes = Classes::from_objects(objects, &self.options);
        let mut difference = ReferenceChanges::default();
        if classes == self.classes {
            return difference;
        }
        self.classes = classes;
        for naming in self.ingresses.values_mut() {
            let served = self.classes.selection_for(&naming.class).is_served();
            match (naming.served, served) {
                (false, true) => self.users.add(&naming.named, &mut difference),
                (true, false) => self.users.remove(&naming.named, &mut difference),
                (true, true) | (false, false) => {}
            }
            naming.served = served;
        }
        self.apart_from_gateways(difference)
    }

    /// Updates an Ingress; `None` deletes it.
    fn set_ingress(&mut self, key: &ObjectKey, ingress: Option<&Ingress>) -> ReferenceChanges {
        let mut difference = ReferenceChanges::default();
        let naming = ingress.and_then(|ingress| self.naming(key, ingress));
        if let Some(naming) = naming.as_ref().filter(|naming| naming.served) {
            self.users.add(&naming.named, &mut difference);
        }
        let before = match naming {
            Some(naming) => self.ingresses.insert(key.clone(), naming),
            None => self.ingresses.remove(key),
        };
        if let Some(before) = before.filter(|before| before.served) {
            self.users.remove(&before.named, &mut difference);
        }
        self.apart_from_gateways(difference)
    }

    /// Updates a ConfigMap, or removes it for `None`, if it is the settings ConfigMap.
    fn set_config_map(&mut self, key: &ObjectKey, map: Option<&ConfigMap>) -> ReferenceChanges {
        let mut difference = ReferenceChanges::default();
        if self.options.configmap.as_ref() != Some(key) {
            return difference;
        }
        let named: BTreeSet<_> = map.into_iter().flat_map(settings::named_config_maps).collect();
        let named: Box<[_]> = named.into_iter().map(|key| ObjectRef::new(Kind::ConfigMap, key)).collect();
        self.users.add(&named, &mut difference);
        let before = std::mem::replace(&mut self.settings, named);
        self.users.remove(&before, &mut difference);
        self.apart_from_gateways(difference)
    }

    /// The part of a difference that is about objects without a reference from Gateways.
    fn apart_from_gateways(&self, mut difference: ReferenceChanges) -> ReferenceChanges {
        difference.cancel_out();
        difference.gained.retain(|object| !self.gateways.contains(object));
        difference.lost.retain(|object| !self.gateways.contains(object));
        difference
    }

    /// The part of a difference that is about objects without a reference from Ingresses or the settings.
    fn apart_from_ingresses(&self, mut difference: ReferenceChanges) -> ReferenceChanges {
        difference.gained.retain(|object| !self.users.contains(object));
        difference.lost.retain(|object| !self.users.contains(object));
        difference
    }

    /// The references of a ConfigMap.
    pub fn of_config_map(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectRef> {
        let is_settings = self.options.configmap.as_ref() == Some(key);
        self.settings.iter().filter(move |_| is_settings)
    }

    /// The references of an Ingress, if it is served.
    pub fn references_of(&self, ingress: &ObjectKey) -> impl Iterator<Item = &ObjectRef> {
        self.ingresses
            .get(ingress)
            .filter(|naming| naming.served)
            .into_iter()
            .flat_map(|naming| naming.named.iter())
    }

    /// Whether a served Ingress, a Gateway or the settings reference the object.
    #[must_use]
    pub fn contains(&self, object: &ObjectRef) -> bool {
        self.users.contains(object) || self.gateways.contains(object)
    }

    /// All referenced objects.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectRef> {
        self.users.objects().chain(self.gateways.iter().filter(|object| !self.users.contains(object)))
    }

    fn naming(&self, key: &ObjectKey, ingress: &Ingress) -> Option<IngressReferences> {
        let annotations = Annotations { key, ingress, prefix: &self.options.annotations_prefix };
        let referenced = referenced::references_of_ingress(&annotations);
        // Annotations may not reference objects of other namespaces, so these are not kept either.
        let in_namespace = |named: &ObjectKey| named.namespace == key.namespace;
        let secrets =
            referenced.secrets.into_iter().filter(in_namespace).map(|key| ObjectRef::new(Kind::Secret, key));
        let maps = referenced
            .config_maps
            .into_iter()
            .filter(in_namespace)
            .map(|key| ObjectRef::new(Kind::ConfigMap, key));
        let named: Box<[_]> = secrets.chain(maps).collect();
        let class = NamedClass::from_ingress(ingress);
        let served = self.classes.selection_for(&class).is_served();
        (!named.is_empty()).then_some(IngressReferences { class, named, served })
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::kinds::{KINDS, NamedObjects};

    use super::*;

    fn ingress(class: Option<&str>, secrets: &[&str], annotations: &[(&str, &str)]) -> Ingress {
        let tls: Vec<_> = secrets.iter().map(|name| serde_json::json!({ "secretName": name })).collect();
        let annotations: BTreeMap<_, _> = annotations
            .iter()
            .map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), *value))
            .collect();
        serde_json::from_value(serde_json::json!({
            "metadata": { "name": "i", "namespace": "shop", "annotations": annotations },
            "spec": { "ingressClassName": class, "tls": tls },
        }))
        .expect("an Ingress")
    }

    fn secret(namespace: &str, name: &str) -> ObjectRef {
        ObjectRef::new(Kind::Secret, ObjectKey::new(namespace, name))
    }

    #[test]
    fn each_kind_that_names_something_is_noted() {
        let mut references = References::new(&Options::default());
        for known in KINDS.iter().filter(|known| known.names != NamedObjects::Nowhere) {
            let object = ObjectRef::new(known.kind, ObjectKey::new("shop", "a"));
            assert!(references.set(&object, None).is_some(), "{}", known.name);
        }
    }

    #[test]
    fn only_a_served_ingress_makes_its_secrets_wanted() {
        let mut references = References::new(&Options::default());
        let (ours, theirs) = (ObjectKey::new("shop", "ours"), ObjectKey::new("shop", "theirs"));
        let gained = references.set_ingress(&ours, Some(&ingress(Some("fairway"), &["a", ""], &[])));
        assert_eq!(gained.gained, [secret("shop", "a")].into());
        references.set_ingress(&theirs, Some(&ingress(Some("other"), &["b"], &[])));
        assert!(!references.contains(&secret("shop", "b")));
        assert_eq!(references.set_ingress(&ours, None).lost, [secret("shop", "a")].into());
        assert_eq!(references.iter().count(), 0);
    }

    #[test]
    fn secrets_of_its_ingresses_appear_and_disappear_with_a_class() {
        let mut references = References::new(&Options::default());
        let key = ObjectKey::new("shop", "i");
        references.set_ingress(&key, Some(&ingress(Some("edge"), &["a"], &[])));
        assert_eq!(references.references_of(&key).count(), 0);
        let class: IngressClass = serde_json::from_value(
            serde_json::json!({ "spec": { "controller": "fairway.dev/ingress-controller" } }),
        )
        .expect("an IngressClass");
        assert_eq!(references.set_class("edge", Some(&class)).gained, [secret("shop", "a")].into());
        assert_eq!(references.set_class("edge", Some(&class)), ReferenceChanges::default());
        assert_eq!(references.set_class("edge", None).lost, [secret("shop", "a")].into());
    }

    #[test]
    fn a_secret_stays_wanted_while_one_of_its_ingresses_names_it() {
        let mut references = References::new(&Options::default());
        let (one, two) = (ObjectKey::new("shop", "one"), ObjectKey::new("shop", "two"));
        references.set_ingress(&one, Some(&ingress(Some("fairway"), &["a"], &[])));
        references.set_ingress(&two, Some(&ingress(Some("fairway"), &["a"], &[])));
        assert_eq!(references.set_ingress(&one, None), ReferenceChanges::default());
        let moved = references.set_ingress(&two, Some(&ingress(Some("fairway"), &["b"], &[])));
        assert_eq!((moved.gained, moved.lost), ([secret("shop", "b")].into(), [secret("shop", "a")].into()));
    }

    #[test]
    fn annotations_refer_to_objects_of_their_own_namespace_only() {
        let mut references = References::new(&Options::default());
        let annotations = [("proxy-ssl-secret", "shop/upstream"), ("custom-headers", "shop/headers")];
        let named = ingress(Some("fairway"), &[], &annotations);
        let map = ObjectRef::new(Kind::ConfigMap, ObjectKey::new("shop", "headers"));
        let gained = references.set_ingress(&ObjectKey::new("shop", "i"), Some(&named)).gained;
        assert_eq!(gained, [secret("shop", "upstream"), map].into());
        let foreign = ingress(Some("fairway"), &[], &[("proxy-ssl-secret", "kube-system/token")]);
        assert_eq!(
            references.set_ingress(&ObjectKey::new("shop", "j"), Some(&foreign)),
            ReferenceChanges::default()
        );
    }

    #[test]
    fn annotations_about_identity_name_secrets_and_config_maps_of_their_namespace() {
        let mut references = References::new(&Options::default());
        let annotations = [
            (
                "fairway.dev/jwt",
                r#"{"issuers": [{"keys": {"ref": {"kind": "ConfigMap", "name": "keys"}}},
                    {"keys": {"url": "https://a.test", "caCertificateRefs": [{"kind": "Secret", "name": "ca"}]}}]}"#,
            ),
            (
                "fairway.dev/api-key",
                r#"{"secretRefs": [{"name": "partners"}, {"name": "token", "namespace": "kube-system"}]}"#,
            ),
        ];
        let named: Ingress = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "i", "namespace": "shop", "annotations": BTreeMap::from(annotations)},
            "spec": {"ingressClassName": "fairway"},
        }))
        .expect("an Ingress");
        let keys = ObjectRef::new(Kind::ConfigMap, ObjectKey::new("shop", "keys"));
        let gained = references.set_ingress(&ObjectKey::new("shop", "i"), Some(&named)).gained;
        assert_eq!(gained, [secret("shop", "ca"), secret("shop", "partners"), keys].into());
    }

    #[test]
    fn the_settings_name_config_maps_in_any_namespace() {
        let (key, other) = (ObjectKey::new("edge", "settings"), ObjectKey::new("edge", "else"));
        let options = Options { configmap: Some(key.clone()), ..Options::default() };
        let mut references = References::new(&options);
        let map = |data: &[(&str, &str)]| -> ConfigMap {
            let data: BTreeMap<_, _> = data.iter().copied().collect();
            serde_json::from_value(serde_json::json!({ "data": data })).expect("a ConfigMap")
        };
        let named = |namespace, name| ObjectRef::new(Kind::ConfigMap, ObjectKey::new(namespace, name));
        let both = map(&[("add-headers", "edge/one"), ("proxy-set-headers", "shop/two")]);
        assert_eq!(references.set_config_map(&other, Some(&both)), ReferenceChanges::default());
        let gained = references.set_config_map(&key, Some(&both)).gained;
        assert_eq!(gained, [named("edge", "one"), named("shop", "two")].into());
        assert_eq!(
            (references.of_config_map(&key).count(), references.of_config_map(&other).count()),
            (2, 0)
        );
        let same = map(&[("add-headers", "edge/one"), ("proxy-set-headers", "edge/one")]);
        assert_eq!(references.set_config_map(&key, Some(&same)).lost, [named("shop", "two")].into());
        assert_eq!(references.set_config_map(&key, Some(&same)), ReferenceChanges::default());
        assert_eq!(references.set_config_map(&key, None).lost, [named("edge", "one")].into());
    }
}
