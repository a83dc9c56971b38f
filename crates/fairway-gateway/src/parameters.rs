//! What a GatewayClass or a Gateway asks of its address, in a ConfigMap (`parametersRef`): how its Service is made, or that it has
//! that of Ingresses. Owns the names of the entries; never the Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;

use crate::condition::{self, Fault};

/// Entries by name.
pub(crate) type Parameters = BTreeMap<Arc<str>, Arc<str>>;

/// Whose address a Gateway has.
const ADDRESS: &str = "address";
/// One of its own.
const OWN: &str = "own";
/// That of Ingresses, with their listeners.
const SHARED: &str = "shared";

/// The entries, and the values of those that have no others.
const KNOWN: &[(&str, &[&str])] = &[
    (ADDRESS, &[OWN, SHARED]),
    ("externalTrafficPolicy", &["Cluster", "Local"]),
    ("loadBalancerClass", &[]),
    ("serviceType", &["ClusterIP", "LoadBalancer", "NodePort"]),
];

/// Reads the entries that a reference leads to.
pub(crate) fn read(
    group: &str,
    kind: &str,
    key: &ObjectKey,
    inputs: Inputs<'_>,
) -> Result<Parameters, Fault> {
    let wrong = |problem: String| Fault::new("InvalidParameters", problem);
    if !matches!((group, kind), ("" | "core", "ConfigMap")) {
        let kind = condition::kind(group, kind);
        return Err(wrong(format!("parametersRef may name a ConfigMap, not {kind}")));
    }
    let map = inputs.resources.config_maps.get(key);
    let map = map.ok_or_else(|| wrong(format!("the ConfigMap {key} of parametersRef does not exist")))?;
    let mut parameters = Parameters::new();
    for (name, value) in map.object.data.iter().flatten() {
        let Some((_, values)) = KNOWN.iter().find(|(known, _)| known == name) else {
            let known = KNOWN.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
            return Err(wrong(format!(
                "ConfigMap {key} has the entry {name}, and the known ones are {known}"
            )));
        };
        if !values.is_empty() && !values.contains(&value.as_str()) {
            let problem = format!("{name} of ConfigMap {key} is none of {}", values.join(", "));
            return Err(wrong(problem));
        }
        parameters.insert(name.as_str().into(), value.as_str().into());
    }
    Ok(parameters)
}

/// Whether a reference leads to the word that a Gateway has the address of Ingresses, or an address of its own; `None` where it leads
/// to neither. A mistake in another entry moves no Gateway.
pub(crate) fn is_shared(key: &ObjectKey, inputs: Inputs<'_>) -> Option<bool> {
    match inputs.resources.config_maps.get(key)?.object.data.as_ref()?.get(ADDRESS)?.as_str() {
        SHARED => Some(true),
        OWN => Some(false),
        _ => None,
    }
}
