//! The certificate of a host, selected by the `tls` sections of Ingresses.

use std::sync::Arc;

use fairway_model::{Certificate, CertificateKey, HostPattern, WildcardSpan};
use fairway_objects::certificate;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::networking::v1::IngressTLS;

use crate::ingress::aliases::one_label;
use crate::ingress::ownership::HostIngresses;
use crate::ingress::served::ServedIngress;

/// The certificate of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostCertificate {
    /// No `tls` section applies.
    #[default]
    None,
    /// The default certificate: the section has none that is valid for the host.
    Default,
    /// The certificate in this Secret.
    Secret(ObjectKey),
}

impl HostCertificate {
    /// The certificate for an alias: the same one, if it covers that name (`ssl.IsValidHostname`).
    pub(crate) fn for_name(self, name: &HostPattern, usable: Usable<'_>) -> Self {
        match &self {
            Self::Secret(secret)
                if usable(secret).is_some_and(|it| certificate::is_for(&it, &one_label(name))) =>
            {
                self
            }
            Self::Secret(_) | Self::Default | Self::None => Self::None,
        }
    }

    /// Its key in the configuration.
    pub(crate) fn key(&self) -> Option<CertificateKey> {
        match self {
            Self::Secret(secret) => Some(CertificateKey(secret.to_string().into())),
            Self::None | Self::Default => None,
        }
    }
}

/// Looks up usable certificates by Secret.
pub(crate) type Usable<'a> = &'a dyn Fn(&ObjectKey) -> Option<Arc<Certificate>>;

/// The `tls` section that determines the certificate of a host.
#[derive(Clone, Copy)]
pub(crate) struct TlsSection<'a> {
    pub(crate) ingress: &'a Arc<ServedIngress>,
    entries: &'a [IngressTLS],
}

impl<'a> TlsSection<'a> {
    /// The section of the oldest Ingress that has one and decides about the host.
    pub(crate) fn for_host(host: &HostPattern, serving: &'a HostIngresses) -> Option<Self> {
        serving.deciding_ingresses().find_map(|ingress| {
            let entries = ingress.spec()?.tls.as_deref().filter(|entries| !entries.is_empty())?;
            (ingress.rules.iter().any(|(rule_host, _)| rule_host == host))
                .then_some(Self { ingress, entries })
        })
    }

    /// The certificate of the entry that names the host, else of an entry whose certificate covers it
    /// (`extractTLSSecretName`); the default certificate if it does not cover the host.
    pub(crate) fn certificate(
        &self,
        host: &HostPattern,
        usable: Usable<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> HostCertificate {
        let namespace = &self.ingress.key.namespace;
        let key = |name: &str| ObjectKey { namespace: namespace.clone(), name: name.into() };
        let names_host =
            |name: &String| HostPattern::parse(name, WildcardSpan::OneLabel).as_ref() == Ok(host);
        let is_good = |secret: &ObjectKey| usable(secret).is_some_and(|it| certificate::is_for(&it, host));
        let named = self.entries.iter().position(|tls| tls.hosts.iter().flatten().any(names_host));
        let Some(at) = named else {
            let mut secrets = self.entries.iter().filter_map(|tls| tls.secret_name.as_deref()).map(key);
            return secrets.find(is_good).map_or(HostCertificate::Default, HostCertificate::Secret);
        };
        let secret = self.entries[at].secret_name.as_deref().filter(|name| !name.is_empty()).map(key);
        let Some(secret) = secret else { return HostCertificate::Default };
        if is_good(&secret) {
            return HostCertificate::Secret(secret);
        }
        if let Some(other) = usable(&secret) {
            let origin = self.ingress.origin(&format!("spec.tls[{at}].secretName"));
            let names = other.names.join(", ");
            let problem = format!("the certificate in Secret {secret} is for {names}, not for {host}");
            let found = Diagnostic::new(Severity::Error, "certificate-for-other-names", origin);
            diagnostics.push(found.because(problem, "the default certificate is shown to its clients"));
        }
        HostCertificate::Default
    }
}
