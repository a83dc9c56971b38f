//! The endpoints of an InferencePool: each port of each of its Pods.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fairway_model::Endpoint;

use crate::diagnostic::{Diagnostic, Severity};
use crate::endpoints::{self, NO_ADDRESS};
use crate::inference::InferencePoolSpec;
use crate::inputs::Inputs;
use crate::object::{Kind, ObjectKey};

/// Without duplicates, ordered by address. A selector without labels selects nothing, as in a Service.
pub(crate) fn endpoints_of(
    key: &ObjectKey,
    spec: &InferencePoolSpec,
    inputs: Inputs<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Endpoint> {
    let labels = &spec.selector.match_labels;
    let pods = inputs.resources.pods_in(&key.namespace);
    let members =
        pods.filter(|(_, pod)| !labels.is_empty() && pod.object.is_ready && pod.object.matches(labels));
    let mut found = BTreeMap::new();
    for (name, pod) in members {
        let Some(address) = &pod.object.address else { continue };
        let judged = match address {
            Ok(ip) => {
                endpoints::check_address(*ip, inputs.options).map_err(|problem| (ip.to_string(), problem))
            }
            Err(text) => Err((text.to_string(), NO_ADDRESS.to_owned())),
        };
        match judged {
            Ok(ip) => {
                for number in spec.target_ports.iter().filter_map(|port| u16::try_from(port.number).ok()) {
                    found.entry(SocketAddr::new(ip, number)).or_insert_with(|| name.name.clone());
                }
            }
            Err((text, problem)) => {
                let invalid = Diagnostic::new(
                    Severity::Error,
                    "invalid-endpoint",
                    pod.origin(Kind::Pod, name, "status.podIP"),
                );
                diagnostics.push(invalid.because(format!("\"{text}\" {problem}"), "the address is not used"));
            }
        }
    }
    found.into_iter().map(|(address, name)| Endpoint { name: Some(name), ..Endpoint::at(address) }).collect()
}
