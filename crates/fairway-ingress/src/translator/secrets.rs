//! Reads Secrets with certificates that are or may be used, and puts used ones into the configuration.

use fairway_gateway::Gateways;
use fairway_model::CertificateKey;
use fairway_objects::diagnostic::DiagnosticScope;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectKey;

use crate::translator::state::{CertificateUser, Progress, TranslatorState};
use crate::translator::work::Work;

impl TranslatorState {
    /// Reads Secrets with certificates, and checks their validity; `gateways` knows which of them it uses.
    pub(super) fn read_secrets(
        &mut self,
        inputs: Inputs<'_>,
        gateways: &Gateways,
        work: &mut Work,
        now: i64,
    ) {
        let default = inputs.options.defaults.certificate.as_ref();
        if self.progress == Progress::New {
            work.secrets.extend(default.cloned());
        }
        for key in &work.secrets {
            let ingresses = self.dependencies.certificates.has(key) || default == Some(key);
            let shown = ingresses || gateways.shows(key);
            match inputs.resources.secrets.get(key).filter(|_| shown) {
                Some(secret) => self.certificates.set(key, secret),
                None => self.certificates.remove(key),
            }
        }
        if let Some(default) = default.filter(|default| work.secrets.contains(default)) {
            self.show_default(inputs, default);
        }
        let stale = match self.progress {
            Progress::New => true,
            Progress::Running { since, until } => now < since || now >= until,
        };
        let all = stale.then(|| self.certificates.keys().cloned().collect::<Vec<_>>());
        for key in work.secrets.iter().chain(all.iter().flatten()) {
            let without = if default == Some(key) {
                "a self-signed certificate is used in its place"
            } else if self.dependencies.certificates.has(key) {
                "the default certificate is used in its place"
            } else {
                "the listeners that name it show none"
            };
            let found = self.certificates.diagnostics(key, now, without);
            self.current.diagnostics.replace(DiagnosticScope::Certificate(key.clone()), found);
        }
        if stale || !work.secrets.is_empty() {
            self.progress = Progress::Running { since: now, until: self.certificates.next_change(now) };
        }
        work.certificates.append(&mut work.secrets);
    }

    fn show_default(&mut self, inputs: Inputs<'_>, key: &ObjectKey) {
        self.report_settings(inputs);
        self.certificate_users.add(key, CertificateUser::Default);
        let usable = self.certificates.certificate(key).is_some();
        self.current.config.default_certificate = usable.then(|| CertificateKey(key.to_string().into()));
    }

    /// Adds used certificates to the configuration, and removes the others.
    pub(super) fn make_certificates(&mut self, work: &Work) {
        let certificates = &mut self.current.config.certificates;
        for key in &work.certificates {
            let name = CertificateKey(key.to_string().into());
            match self.certificates.certificate(key).filter(|_| self.certificate_users.has(key)) {
                None => drop(certificates.remove(&name)),
                Some(certificate) => {
                    if certificates.get(&name).is_none_or(|before| *before != certificate) {
                        certificates.insert(name, certificate);
                    }
                }
            }
        }
    }
}
