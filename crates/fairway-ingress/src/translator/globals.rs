//! Global inputs of all Ingresses: classes, settings, and trust in client addresses.

use fairway_model::{HostPattern, Origin};
use fairway_objects::backend::BackendRef;
use fairway_objects::diagnostic::{Diagnostic, DiagnosticScope, Severity};
use fairway_objects::inputs::Inputs;

use crate::ingress::class::Classes;
use crate::ingress::settings;
use crate::listeners;
use crate::translator::state::TranslatorState;
use crate::translator::work::Work;

impl TranslatorState {
    /// Reads the classes and the settings; if they change, every Ingress is read again.
    pub(super) fn read_globals(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        let mut all = false;
        if work.classes {
            let classes = Classes::read(inputs.resources, inputs.options);
            all |= classes != self.classes;
            self.classes = classes;
        }
        if work.settings {
            let read = settings::read(inputs);
            let map = inputs.options.configmap.as_ref().and_then(|key| inputs.resources.config_maps.get(key));
            self.settings_maps =
                map.iter().flat_map(|map| settings::named_config_maps(&map.object)).collect();
            all |= read.defaults != self.defaults;
            self.defaults = read.defaults;
            work.report_trust = true;
            let introduced_otherwise =
                read.settings.proxy_protocol != self.current.config.settings.proxy_protocol;
            self.current.config.settings = read.settings;
            if introduced_otherwise {
                listeners::set_ingress_listeners(inputs.options, &mut self.current.config);
            }
            let mut found = read.diagnostics;
            found.extend(missing_defaults(inputs));
            self.current.diagnostics.replace(DiagnosticScope::Settings, found);
        }
        if all {
            work.ingresses.extend(inputs.resources.ingresses.keys().cloned());
            work.hosts.insert(HostPattern::Any);
        }
    }

    /// Repeats the diagnostics of the settings, after the default certificate's Secret changed.
    pub(super) fn report_settings(&mut self, inputs: Inputs<'_>) {
        let found = settings::read(inputs).diagnostics.into_iter().chain(missing_defaults(inputs));
        self.current.diagnostics.replace(DiagnosticScope::Settings, found.collect());
    }

    /// Reports that every client can claim any address, with the Ingresses whose source ranges become ineffective.
    pub(super) fn report_trust(&mut self, work: &Work) {
        if !work.report_trust {
            return;
        }
        let restricting = &self.dependencies.restricting;
        let trusts = &self.defaults.universal_trust;
        let found = trusts.iter().map(|trust| trust.describe(restricting.iter())).collect();
        self.current.diagnostics.replace(DiagnosticScope::Trust, found);
    }
}

/// Reports missing objects that the operator named as defaults.
fn missing_defaults(inputs: Inputs<'_>) -> Vec<Diagnostic> {
    missing_default_certificate(inputs).into_iter().chain(missing_default_backend(inputs)).collect()
}

fn missing_default_backend(inputs: Inputs<'_>) -> Option<Diagnostic> {
    let key = inputs.options.defaults.backend.as_ref()?;
    if BackendRef::first_port(key, inputs).is_some() {
        return None;
    }
    let origin = Origin::object("Service", &key.namespace, &key.name);
    let problem = "the Service of --default-backend does not exist, has no port or is of type ExternalName";
    let found = Diagnostic::new(Severity::Error, "missing-reference", origin);
    Some(found.because(problem, "requests that no rule serves are answered 404"))
}

fn missing_default_certificate(inputs: Inputs<'_>) -> Option<Diagnostic> {
    let key = inputs.options.defaults.certificate.as_ref()?;
    if inputs.resources.secrets.contains_key(key) {
        return None;
    }
    let origin = Origin::object("Secret", &key.namespace, &key.name);
    let problem = format!("Secret {key} does not exist, though it is named as the default certificate");
    let found = Diagnostic::new(Severity::Error, "missing-reference", origin);
    Some(found.because(problem, "a self-signed certificate is used in its place"))
}
