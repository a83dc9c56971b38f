//! Namespace selection for attaching routes to listeners and ListenerSets to Gateways (Gateway API `FromNamespaces`).

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::gateway_api::FromNamespaces;
use fairway_objects::object::ObjectKey;
use fairway_objects::resources::Resources;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Label with the name of the namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Namespaces whose objects may be attached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AllowedNamespaces {
    /// None.
    None,
    /// The namespace of the object with this field.
    Same,
    /// All.
    All,
    /// Namespaces with these labels.
    Labelled(Arc<LabelSelector>),
}

impl AllowedNamespaces {
    /// Reads the field, or returns `default` if it is absent. `None` for an unknown value.
    pub(crate) fn read(from: Option<&FromNamespaces>, default: Self) -> Option<Self> {
        let selector = || from.and_then(|from| from.selector.clone());
        match from.and_then(|from| from.from.as_deref()) {
            None => Some(default),
            Some("None") => Some(Self::None),
            Some("Same") => Some(Self::Same),
            Some("All") => Some(Self::All),
            // An empty selector selects everything; an absent one selects nothing (Kubernetes `LabelSelector`).
            Some("Selector") => {
                Some(selector().map_or(Self::None, |selector| Self::Labelled(Arc::new(selector))))
            }
            Some(_) => None,
        }
    }

    /// Whether an object in `namespace` may be attached to one in `own_namespace`.
    pub(crate) fn admits(&self, namespace: &str, own_namespace: &str, resources: &Resources) -> bool {
        match self {
            Self::None => false,
            Self::Same => namespace == own_namespace,
            Self::All => true,
            Self::Labelled(selector) => {
                let found = resources.gateway.namespaces.get(&ObjectKey::new("", namespace));
                let labels = found.and_then(|it| it.object.metadata.labels.as_ref());
                selects(selector, &with_name_label(namespace, labels), found.is_some())
            }
        }
    }
}

/// The labels of a namespace. Kubernetes labels each with its name, which manifests in a directory omit.
fn with_name_label<'l>(
    namespace: &'l str,
    labels: Option<&'l BTreeMap<String, String>>,
) -> BTreeMap<&'l str, &'l str> {
    let pairs = labels.into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()));
    [(NAME_LABEL, namespace)].into_iter().chain(pairs).collect()
}

/// Kubernetes `LabelSelector`: all parts must hold, and an empty selector selects everything. If the labels of a
/// namespace are not `known`, for example without permission to read namespaces, only expressions about its name hold:
/// another label may be there although it was not seen.
fn selects(selector: &LabelSelector, labels: &BTreeMap<&str, &str>, known: bool) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let mut equal = equal.map(|(name, value)| labels.get(name.as_str()) == Some(&value.as_str()));
    let mut required = selector.match_expressions.iter().flatten();
    equal.all(|it| it) && required.all(|it| (known || it.key == NAME_LABEL) && requirement_holds(it, labels))
}

fn requirement_holds(required: &LabelSelectorRequirement, labels: &BTreeMap<&str, &str>) -> bool {
    let value = labels.get(required.key.as_str());
    let is_among = || {
        let values = required.values.as_deref().unwrap_or_default();
        value.is_some_and(|value| values.iter().any(|it| it == value))
    };
    match required.operator.as_str() {
        "In" => is_among(),
        "NotIn" => !is_among(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::object::Object;
    use fairway_objects::resources::Change;
    use k8s_openapi::api::core::v1::Namespace;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn requirement(operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        LabelSelectorRequirement {
            key: "team".into(),
            operator: operator.into(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
        }
    }

    #[test]
    fn label_expressions_match_as_in_kubernetes() {
        let labels: BTreeMap<_, _> = [("team", "red")].into();
        for (operator, values, expected) in [
            ("In", &["red", "blue"][..], true),
            ("In", &["blue"], false),
            ("NotIn", &["red"], false),
            ("NotIn", &["blue"], true),
            ("Exists", &[], true),
            ("DoesNotExist", &[], false),
            ("Like", &["red"], false),
        ] {
            assert_eq!(
                requirement_holds(&requirement(operator, values), &labels),
                expected,
                "{operator} {values:?}"
            );
        }
        assert!(requirement_holds(&requirement("NotIn", &["x"]), &BTreeMap::new()));
    }

    #[test]
    fn a_missing_selector_admits_no_namespace() {
        let matches_labels = |selector| {
            let from = FromNamespaces { from: Some("Selector".into()), selector };
            AllowedNamespaces::read(Some(&from), AllowedNamespaces::Same).unwrap()
        };
        assert!(!matches_labels(None).admits("shop", "shop", &Resources::default()));
        assert!(matches_labels(Some(LabelSelector::default())).admits(
            "other",
            "shop",
            &Resources::default()
        ));
    }

    #[test]
    fn without_known_labels_only_expressions_about_the_name_hold() {
        let selector = LabelSelector {
            match_expressions: Some(vec![requirement("NotIn", &["red"])]),
            ..LabelSelector::default()
        };
        let allowed = AllowedNamespaces::Labelled(Arc::new(selector));
        let mut resources = Resources::default();
        assert!(!allowed.admits("shop", "edge", &resources));
        let metadata = ObjectMeta { name: Some("shop".into()), ..ObjectMeta::default() };
        let shop = Namespace { metadata, ..Namespace::default() };
        resources.apply(Change::Set(Object::Namespace(Arc::new(shop)), None));
        assert!(allowed.admits("shop", "edge", &resources));
    }

    #[test]
    fn a_namespace_has_its_name_as_a_label() {
        let name = [("kubernetes.io/metadata.name".to_owned(), "shop".to_owned())].into();
        let selector = LabelSelector { match_labels: Some(name), ..LabelSelector::default() };
        let allowed = AllowedNamespaces::Labelled(Arc::new(selector));
        assert!(allowed.admits("shop", "edge", &Resources::default()));
        assert!(!allowed.admits("other", "edge", &Resources::default()));
    }
}
