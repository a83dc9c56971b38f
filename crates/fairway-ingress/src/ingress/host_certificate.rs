//! Which certificate a host has: the one that the `tls` section of an Ingress names for it.

use std::sync::Arc;

use fairway_model::{Certificate, CertificateKey, HostPattern, WildcardSpan};
use fairway_objects::certificate;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::networking::v1::IngressTLS;

use crate::ingress::further::one_label;
use crate::ingress::ownership::HostIngresses;
use crate::ingress::served::ServedIngress;

/// What certificate a host has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostCertificate {
    /// No Ingress of it has a `tls` section.
    #[default]
    None,
    /// The default one: the section names none that is good for it.
    Default,
    /// The one in this Secret.
    Secret(ObjectKey),
}

impl HostCertificate {
    /// What a further name of the host shows: the same, where it is for that name (`ssl.IsValidHostname`).
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

    /// Its name in the configuration.
    pub(crate) fn key(&self) -> Option<CertificateKey> {
        match self {
            Self::Secret(secret) => Some(CertificateKey(secret.to_string().into())),
            Self::None | Self::Default => None,
        }
    }
}

/// The usable certificates by Secret.
pub(crate) type Usable<'a> = &'a dyn Fn(&ObjectKey) -> Option<Arc<Certificate>>;

/// The `tls` section that gives a host its certificate.
#[derive(Clone, Copy)]
pub(crate) struct TlsSection<'a> {
    pub(crate) ingress: &'a Arc<ServedIngress>,
    entries: &'a [IngressTLS],
}

impl<'a> TlsSection<'a> {
    /// That of the oldest Ingress which has one and decides.
    pub(crate) fn of(host: &HostPattern, serving: &'a HostIngresses) -> Option<Self> {
        serving.deciding().find_map(|ingress| {
            let entries = ingress.spec()?.tls.as_deref().filter(|entries| !entries.is_empty())?;
            (ingress.rules.iter().any(|(of, _)| of == host)).then_some(Self { ingress, entries })
        })
    }

    /// The certificate of the entry that names the host, else of one whose certificate is for it
    /// (`extractTLSSecretName`); the default one where it is not for the host.
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
