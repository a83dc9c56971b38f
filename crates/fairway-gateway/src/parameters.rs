//! Parameters of GatewayClasses and Gateways in a ConfigMap (`parametersRef`): how the Service is created, or that
//! the address of Ingresses is shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;

use crate::condition::{self, Fault};

/// Parameters by name.
pub(crate) type Parameters = BTreeMap<Arc<str>, Arc<str>>;

/// Whether the Gateway has its own address.
const ADDRESS_KEY: &str = "address";
/// Its own address.
const OWN_ADDRESS: &str = "own";
/// The address and listeners of Ingresses.
const SHARED_ADDRESS: &str = "shared";

/// Known parameters, and their values if they are limited.
const KNOWN_KEYS: &[(&str, &[&str])] = &[
    (ADDRESS_KEY, &[OWN_ADDRESS, SHARED_ADDRESS]),
    ("externalTrafficPolicy", &["Cluster", "Local"]),
    ("loadBalancerClass", &[]),
    ("serviceType", &["ClusterIP", "LoadBalancer", "NodePort"]),
];

/// Reads the parameters of a reference.
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
        let Some((_, values)) = KNOWN_KEYS.iter().find(|(known, _)| known == name) else {
            let known = KNOWN_KEYS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
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

/// Whether the referenced parameters select the address of Ingresses or an own address; `None` if they select
/// neither. Errors in other parameters do not move a Gateway.
pub(crate) fn is_shared(key: &ObjectKey, inputs: Inputs<'_>) -> Option<bool> {
    match inputs.resources.config_maps.get(key)?.object.data.as_ref()?.get(ADDRESS_KEY)?.as_str() {
        SHARED_ADDRESS => Some(true),
        OWN_ADDRESS => Some(false),
        _ => None,
    }
}
