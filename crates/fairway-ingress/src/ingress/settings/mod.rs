//! The settings ConfigMap: settings of the data plane and defaults of Ingresses.
//!
//! Equivalent keys of ingress-nginx and of the F5 controller have the same effect.

mod authentication;
mod compression;
mod draft;
mod firewall;
mod forwarded;
mod headers;
mod ignored_keys;
mod keys;
mod log_format;
mod map_entries;
mod problem;
mod snippets;
mod tickets;
mod tracing;

use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::Kind;

pub(crate) use draft::SettingsReading;
use draft::{Setting, SettingsDraft};
pub(crate) use headers::named_config_maps;

/// Reads the ConfigMap named by the options.
pub(crate) fn read(inputs: Inputs<'_>) -> SettingsReading {
    let mut draft = SettingsDraft::new(inputs.options);
    let Some(key) = &inputs.options.configmap else {
        return draft.finish(inputs.resources, |_| Origin::default());
    };
    let object = Origin::object("ConfigMap", &key.namespace, &key.name);
    let Some(map) = inputs.resources.config_maps.get(key) else {
        let found = Diagnostic::new(Severity::Warning, "missing-reference", object.clone());
        let problem = format!("ConfigMap {key} does not exist, though it is named for the settings");
        draft.diagnostics.push(found.because(problem, "every setting has its default"));
        return draft.finish(inputs.resources, |_| object.clone());
    };
    let at = |name: &str| map.origin(Kind::ConfigMap, key, &format!("data.{name}"));
    for (name, value) in map.object.data.iter().flatten() {
        if let Err(problem) = keys::read(&mut draft, name, value.trim()) {
            draft.report(problem, Setting { name, value, origin: at(name) });
        }
    }
    draft.finish(inputs.resources, at)
}
