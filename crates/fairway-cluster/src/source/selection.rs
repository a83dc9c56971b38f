//! Where to look: the operator's choice of namespaces and of single objects. Owns what follows from it for the watches
//! at the start; never watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::options::Options;

use super::collection::{Collection, Watched};

/// The kinds that are watched wherever Ingresses are served.
const EVERYWHERE: [Kind; 3] = [Kind::Ingress, Kind::Service, Kind::EndpointSlice];

/// The namespaces whose objects are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them.
    #[default]
    All,
    /// These.
    Listed(Vec<Arc<str>>),
    /// Those that match a label selector, as they come and go.
    Labelled(Arc<str>),
}

/// What is watched.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The namespaces whose objects are served.
    pub namespaces: Namespaces,
    /// The operator's choices: they name the ConfigMaps of settings and of TCP and UDP services, the default certificate and
    /// the classes.
    pub options: Options,
    /// Services that are wanted too, wherever they are.
    pub services: Vec<ObjectKey>,
    /// Whether objects of the Gateway API are served.
    pub gateways: ServeGateways,
}

/// Whether objects of the Gateway API are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServeGateways {
    /// Where the cluster has the CRDs.
    #[default]
    Yes,
    /// They are not even looked for.
    No,
}

impl Selection {
    /// What is watched from the start.
    pub(super) fn collections(&self) -> BTreeSet<Collection> {
        let mut all = self.named();
        all.insert(Collection::all(Kind::IngressClass));
        match &self.namespaces {
            Namespaces::All => all.extend(EVERYWHERE.map(Collection::all)),
            Namespaces::Listed(names) => all.extend(names.iter().flat_map(Self::in_namespace)),
            Namespaces::Labelled(labels) => {
                let labels = Some(labels.clone());
                all.insert(Collection { labels, ..Collection::all(Watched::Selection) });
            }
        }
        all
    }

    /// What is watched in each selected namespace, whatever the cluster has of the Gateway API.
    pub(super) fn in_namespace(namespace: &Arc<str>) -> [Collection; 3] {
        EVERYWHERE.map(|kind| Collection::within(kind, namespace))
    }

    /// What is watched of a kind of the Gateway API from the start; namespaces with the labels asked for come later.
    pub(super) fn of_gateways(&self, kind: Kind, version: &'static str) -> Vec<Collection> {
        let all = match &self.namespaces {
            _ if !kind.is_namespaced() => vec![Collection::all(kind)],
            Namespaces::All => vec![Collection::all(kind)],
            Namespaces::Listed(names) => names.iter().map(|name| Collection::within(kind, name)).collect(),
            Namespaces::Labelled(_) => Vec::new(),
        };
        all.into_iter().map(|collection| collection.in_version(version)).collect()
    }

    /// The objects that are watched by name. No other watch tells of them.
    pub(super) fn named(&self) -> BTreeSet<Collection> {
        let one = |kind| move |key: &ObjectKey| Collection::one(kind, &key.namespace, &key.name);
        let maps = &self.options.listeners.service_maps;
        let maps = [&self.options.configmap, &maps.tcp, &maps.udp].into_iter().flatten();
        let maps = maps.map(one(Kind::ConfigMap));
        let certificate = self.options.defaults.certificate.iter().map(one(Kind::Secret));
        let services = self.services.iter().chain(&self.options.defaults.backend);
        let outside = services.filter(|service| !self.covers(&service.namespace));
        maps.chain(certificate).chain(outside.map(one(Kind::Service))).collect()
    }

    /// Whether the namespace is always watched as a whole.
    fn covers(&self, namespace: &Arc<str>) -> bool {
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
    fn a_service_outside_of_the_listed_namespaces_has_a_watch_of_its_own() {
        let services = vec![ObjectKey::new("shop", "web"), ObjectKey::new("edge", "fairway")];
        let selection = Selection {
            namespaces: Namespaces::Listed(vec!["shop".into()]),
            services,
            ..Selection::default()
        };
        let named = selection.named();
        assert_eq!(named, [Collection::one(Kind::Service, &"edge".into(), &"fairway".into())].into());
        assert_eq!(selection.collections().len(), 5);
    }
}
