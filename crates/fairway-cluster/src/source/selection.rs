//! What to watch: the operator's choice of namespaces and single objects, as the initial watches. Watches nothing itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::options::Options;

use super::collection::{Collection, WatchedKind};

/// The kinds that are watched wherever Ingresses are served.
const ALWAYS_WATCHED: [Kind; 3] = [Kind::Ingress, Kind::Service, Kind::EndpointSlice];

/// The namespaces whose objects are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them.
    #[default]
    All,
    /// These namespaces.
    Listed(Vec<Arc<str>>),
    /// Namespaces that match a label selector, now or later.
    Labelled(Arc<str>),
}

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The namespaces whose objects are served.
    pub namespaces: Namespaces,
    /// The operator's choices. They name the ConfigMaps of settings and of TCP and UDP services, the default certificate and the
    /// classes.
    pub options: Options,
    /// Further Services to watch, in any namespace.
    pub services: Vec<ObjectKey>,
    /// Whether objects of the Gateway API are served.
    pub gateways: ServeGateways,
}

/// Whether objects of the Gateway API are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServeGateways {
    /// If the cluster has the CRDs.
    #[default]
    Yes,
    /// Never; discovery does not run.
    No,
}

impl Selection {
    /// The initial watches.
    pub(super) fn initial_collections(&self) -> BTreeSet<Collection> {
        let mut all = self.named_objects();
        all.insert(Collection::all(Kind::IngressClass));
        match &self.namespaces {
            Namespaces::All => all.extend(ALWAYS_WATCHED.map(Collection::all)),
            Namespaces::Listed(names) => all.extend(names.iter().flat_map(Self::namespace_collections)),
            Namespaces::Labelled(labels) => {
                let labels = Some(labels.clone());
                all.insert(Collection { labels, ..Collection::all(WatchedKind::NamespaceNames) });
            }
        }
        all
    }

    /// What is watched in each selected namespace, apart from the Gateway API.
    pub(super) fn namespace_collections(namespace: &Arc<str>) -> [Collection; 3] {
        ALWAYS_WATCHED.map(|kind| Collection::within(kind, namespace))
    }

    /// The initial watches of a Gateway API kind; namespaces that are selected by labels are added later.
    pub(super) fn gateway_collections(&self, kind: Kind, version: &'static str) -> Vec<Collection> {
        let all = match &self.namespaces {
            _ if !kind.is_namespaced() => vec![Collection::all(kind)],
            Namespaces::All => vec![Collection::all(kind)],
            Namespaces::Listed(names) => names.iter().map(|name| Collection::within(kind, name)).collect(),
            Namespaces::Labelled(_) => Vec::new(),
        };
        all.into_iter().map(|collection| collection.in_version(version)).collect()
    }

    /// The objects that are watched by name; no other watch covers them.
    pub(super) fn named_objects(&self) -> BTreeSet<Collection> {
        let single_object = |kind| move |key: &ObjectKey| Collection::one(kind, &key.namespace, &key.name);
        let maps = &self.options.listeners.service_maps;
        let maps = [&self.options.configmap, &maps.tcp, &maps.udp].into_iter().flatten();
        let maps = maps.map(single_object(Kind::ConfigMap));
        let certificate = self.options.defaults.certificate.iter().map(single_object(Kind::Secret));
        let services = self.services.iter().chain(&self.options.defaults.backend);
        let outside = services.filter(|service| !self.covers_namespace(&service.namespace));
        maps.chain(certificate).chain(outside.map(single_object(Kind::Service))).collect()
    }

    /// Whether the namespace is always watched as a whole.
    fn covers_namespace(&self, namespace: &Arc<str>) -> bool {
        match &self.namespaces {
            Namespaces::All => true,
            Namespaces::Listed(names) => names.contains(namespace),
            Namespaces::Labelled(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_outside_the_listed_namespaces_has_its_own_watch() {
        let services = vec![ObjectKey::new("shop", "web"), ObjectKey::new("edge", "fairway")];
        let selection = Selection {
            namespaces: Namespaces::Listed(vec!["shop".into()]),
            services,
            ..Selection::default()
        };
        let named = selection.named_objects();
        assert_eq!(named, [Collection::one(Kind::Service, &"edge".into(), &"fairway".into())].into());
        assert_eq!(selection.initial_collections().len(), 5);
    }
}
