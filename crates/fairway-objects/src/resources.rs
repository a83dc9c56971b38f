//! The current objects, by kind and name. Neither interprets nor reads them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

use crate::gateway_resources::{GatewayResources, Releases};
use crate::insertion_order::filling;
use crate::object::{DocumentSource, Kind, Object, ObjectKey, ObjectRef, Sourced};
use crate::placement::{Address, Placement};
use crate::pod::Pod;
use crate::service::KeptService;
use crate::slice::EndpointSlice;
use crate::users::ReverseIndex;

/// A change of the [`Resources`].
#[derive(Clone, Debug)]
pub enum Change {
    /// The object was added or changed.
    Set(Object, Option<DocumentSource>),
    /// The object was removed.
    Remove(ObjectRef),
    /// The current addresses of an external name that translation requires.
    Resolved {
        /// The name, in lower case.
        name: Arc<str>,
        /// Its addresses; empty when it has none.
        addresses: Vec<IpAddr>,
    },
    /// Where a Gateway is reachable now; `None` removes it.
    Placed {
        /// The Gateway.
        gateway: ObjectKey,
        /// Its addresses and ports.
        placement: Option<Arc<Placement>>,
    },
    /// The current releases of the installed Gateway API CRDs.
    Released(Releases),
    /// The current addresses for the status of Ingresses.
    Published(Arc<[Address]>),
}

/// The current objects. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Ingresses.
    pub ingresses: OrdMap<ObjectKey, Sourced<Ingress>>,
    /// IngressClasses.
    pub classes: OrdMap<ObjectKey, Sourced<IngressClass>>,
    /// Services, trimmed.
    pub services: OrdMap<ObjectKey, Sourced<KeptService>>,
    /// EndpointSlices, trimmed.
    pub slices: OrdMap<ObjectKey, Sourced<EndpointSlice>>,
    /// Pods, trimmed; only in namespaces with InferencePools.
    pub pods: OrdMap<ObjectKey, Sourced<Pod>>,
    /// Secrets.
    pub secrets: OrdMap<ObjectKey, Sourced<Secret>>,
    /// ConfigMaps.
    pub config_maps: OrdMap<ObjectKey, Sourced<ConfigMap>>,
    /// Ingresses of API versions that Kubernetes removed.
    pub old_ingresses: OrdMap<ObjectKey, Sourced<serde_json::Value>>,
    /// The addresses of external names.
    pub resolved: OrdMap<ObjectKey, Arc<[IpAddr]>>,
    /// The objects of the Gateway API.
    pub gateway: GatewayResources,
    /// Services by cluster address.
    service_addresses: ReverseIndex<IpAddr, ObjectKey>,
    /// The slices of each Service.
    service_slices: ReverseIndex<ObjectKey, ObjectKey>,
    /// The slices of each ServiceImport.
    import_slices: ReverseIndex<ObjectKey, ObjectKey>,
}

impl Change {
    /// The changed object, for the translator.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        match self {
            Self::Set(object, _) => object.reference(),
            Self::Remove(reference) => reference.clone(),
            Self::Resolved { name, .. } => ObjectRef::new(Kind::Resolved, ObjectKey::new("", name)),
            Self::Placed { gateway, .. } => ObjectRef::new(Kind::Placement, gateway.clone()),
            Self::Released(_) => ObjectRef::new(Kind::Releases, ObjectKey::default()),
            Self::Published(_) => ObjectRef::new(Kind::Published, ObjectKey::default()),
        }
    }
}

impl Resources {
    /// Applies changes, and returns the changed objects. The last change of an object counts, so that those of an empty
    /// collection may be applied in the order that fills its maps.
    pub fn apply_all(&mut self, changes: Vec<Change>) -> Vec<ObjectRef> {
        let with_references = changes.into_iter().map(|change| (change.reference(), change));
        if !self.is_empty() {
            return with_references.map(|edit| self.apply_one(edit)).collect();
        }
        let last: BTreeMap<ObjectRef, Change> = with_references.collect();
        filling(last).map(|edit| self.apply_one(edit)).collect()
    }

    fn apply_one(&mut self, (reference, change): (ObjectRef, Change)) -> ObjectRef {
        self.apply(change);
        reference
    }

    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Set(object, source) => self.set(object, source),
            Change::Remove(reference) => self.remove(&reference),
            Change::Resolved { name, addresses } => {
                self.resolved.insert(ObjectKey::new("", &name), addresses.into());
            }
            Change::Placed { gateway, placement } => self.gateway.set_placement(gateway, placement),
            Change::Released(releases) => self.gateway.releases = releases,
            Change::Published(addresses) => self.gateway.published = Some(addresses),
        }
    }

    /// The number of objects per kind, without Namespaces and old Ingresses.
    pub fn counts(&self) -> impl Iterator<Item = (Kind, usize)> {
        let of_kubernetes = [
            (Kind::Ingress, self.ingresses.len()),
            (Kind::IngressClass, self.classes.len()),
            (Kind::Service, self.services.len()),
            (Kind::EndpointSlice, self.slices.len()),
            (Kind::Pod, self.pods.len()),
            (Kind::Secret, self.secrets.len()),
            (Kind::ConfigMap, self.config_maps.len()),
        ];
        of_kubernetes.into_iter().chain(self.gateway.counts())
    }

    /// The number of objects of all kinds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts().map(|(_, count)| count).sum::<usize>() + self.old_ingresses.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slices of a Service, by name.
    pub(crate) fn slices_of(
        &self,
        service: &ObjectKey,
    ) -> impl Iterator<Item = (&ObjectKey, &Sourced<EndpointSlice>)> {
        self.service_slices.users_of(service).filter_map(|key| self.slices.get(key).map(|slice| (key, slice)))
    }

    /// The slices of a ServiceImport, by name.
    pub(crate) fn slices_of_import(
        &self,
        import: &ObjectKey,
    ) -> impl Iterator<Item = (&ObjectKey, &Sourced<EndpointSlice>)> {
        self.import_slices.users_of(import).filter_map(|key| self.slices.get(key).map(|slice| (key, slice)))
    }

    /// The Pods of a namespace, by name.
    pub(crate) fn pods_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = (&ObjectKey, &Sourced<Pod>)> {
        let first = ObjectKey { namespace: namespace.clone(), name: Arc::default() };
        self.pods.range(first..).take_while(move |(key, _)| key.namespace == *namespace)
    }

    /// The Service with this cluster address.
    pub(crate) fn service_with_address(&self, address: IpAddr) -> Option<&ObjectKey> {
        // A cluster assigns an address once; manifests may repeat it.
        self.service_addresses.users_of(&address).next()
    }

    /// The cluster addresses of a Service.
    pub fn addresses_of(&self, service: &ObjectKey) -> Vec<IpAddr> {
        self.services.get(service).map(|service| service.object.addresses.to_vec()).unwrap_or_default()
    }

    fn forget_addresses(&mut self, service: &ObjectKey) {
        for address in self.addresses_of(service) {
            self.service_addresses.remove(&address, service);
        }
    }

    fn set(&mut self, object: Object, source: Option<DocumentSource>) {
        let key = object.reference().key;
        match object {
            Object::Ingress(it) => keep(&mut self.ingresses, key, it, source),
            Object::IngressClass(it) => keep(&mut self.classes, key, it, source),
            Object::Service(it) => {
                self.forget_addresses(&key);
                keep(&mut self.services, key.clone(), Arc::new(KeptService::from_service(&it)), source);
                for address in self.addresses_of(&key) {
                    self.service_addresses.add(&address, key.clone());
                }
            }
            Object::Pod(it) => keep(&mut self.pods, key, it, source),
            Object::Secret(it) => keep(&mut self.secrets, key, it, source),
            Object::ConfigMap(it) => keep(&mut self.config_maps, key, it, source),
            Object::OldIngress(it) => keep(&mut self.old_ingresses, key, Arc::new(it), source),
            Object::EndpointSlice(it) => {
                self.forget_slice(&key);
                if let Some(service) = it.service() {
                    self.service_slices.add(&service, key.clone());
                }
                if let Some(import) = it.import() {
                    self.import_slices.add(&import, key.clone());
                }
                keep(&mut self.slices, key, it, source);
            }
            of_gateways => self.gateway.set(&key, of_gateways, source),
        }
    }

    fn remove(&mut self, ObjectRef { kind, key }: &ObjectRef) {
        match kind {
            Kind::Ingress => drop(self.ingresses.remove(key)),
            Kind::IngressClass => drop(self.classes.remove(key)),
            Kind::Service => {
                self.forget_addresses(key);
                self.services.remove(key);
            }
            Kind::Pod => drop(self.pods.remove(key)),
            Kind::Secret => drop(self.secrets.remove(key)),
            Kind::ConfigMap => drop(self.config_maps.remove(key)),
            Kind::OldIngress => drop(self.old_ingresses.remove(key)),
            Kind::Resolved => drop(self.resolved.remove(key)),
            Kind::EndpointSlice => self.forget_slice(key),
            kind => self.gateway.remove(*kind, key),
        }
    }

    fn forget_slice(&mut self, key: &ObjectKey) {
        let Some(old) = self.slices.remove(key) else { return };
        if let Some(service) = old.object.service() {
            self.service_slices.remove(&service, key);
        }
        if let Some(import) = old.object.import() {
            self.import_slices.remove(&import, key);
        }
    }
}

fn keep<T: Clone>(
    map: &mut OrdMap<ObjectKey, Sourced<T>>,
    key: ObjectKey,
    object: Arc<T>,
    source: Option<DocumentSource>,
) {
    map.insert(key, Sourced { object, source: source.map(Arc::new) });
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::kinds::KINDS;
    use crate::slice::SERVICE_LABEL;
    use crate::with_type;

    fn ingress(name: &str, version: &str) -> Change {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        Change::Set(Object::Ingress(Arc::new(Ingress { metadata, ..Ingress::default() })), None)
    }

    #[test]
    fn the_last_of_several_changes_of_an_object_counts() {
        let edits = || {
            let gone = ObjectRef::new(Kind::Ingress, ObjectKey::new("default", "c"));
            let first = ["b", "a", "c", "d"].map(|name| ingress(name, "1"));
            first.into_iter().chain([ingress("a", "2"), Change::Remove(gone)]).collect::<Vec<_>>()
        };
        let mut resources = Resources::default();
        for _ in 0..2 {
            let changed = resources.apply_all(edits());
            assert!(["a", "b", "c", "d"].iter().all(|name| changed.iter().any(|it| *it.key.name == **name)));
            let version = |it: &Sourced<Ingress>| it.object.metadata.resource_version.clone();
            let references: Vec<_> =
                resources.ingresses.iter().map(|(key, it)| (key.name.to_string(), version(it))).collect();
            let expected = [("a", "2"), ("b", "1"), ("d", "1")];
            assert_eq!(
                references,
                expected.map(|(name, version)| (name.to_owned(), Some(version.to_owned())))
            );
        }
    }

    #[test]
    fn an_object_of_each_kind_is_stored_and_removed() {
        for known in KINDS {
            let mut resources = Resources::default();
            let named = || serde_json::json!({ "metadata": { "name": "a", "uid": "u" } });
            let object = with_type!(known.kind, K => serde_json::from_value::<K>(named()).unwrap().into(), _ => panic!());
            let mut count = |change| {
                let [reference] = &*resources.apply_all(vec![change]) else { panic!() };
                let counted =
                    resources.counts().find(|(kind, _)| *kind == known.kind).map(|(_, count)| count);
                (reference.clone(), counted.unwrap_or(resources.gateway.namespaces.len()))
            };
            let (reference, kept) = count(Change::Set(object, None));
            assert_eq!((reference.kind, kept), (known.kind, 1), "{}", known.name);
            assert_eq!(reference.key.namespace.is_empty(), !known.is_namespaced, "{}", known.name);
            assert_eq!(count(Change::Remove(reference)).1, 0, "{}", known.name);
        }
    }

    #[test]
    fn a_slice_is_removed_from_its_former_service() {
        let slice = |service: &str| {
            let metadata = serde_json::json!({ "name": "s", "labels": { SERVICE_LABEL: service } });
            let slice = serde_json::from_value(serde_json::json!({ "metadata": metadata })).unwrap();
            Change::Set(Object::EndpointSlice(slice), None)
        };
        let mut resources = Resources::default();
        resources.apply(slice("a"));
        resources.apply(slice("b"));
        let count = |name| resources.slices_of(&ObjectKey::new("default", name)).count();
        assert_eq!((count("a"), count("b")), (0, 1));
    }
}
