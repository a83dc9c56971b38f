//! Client certificates that a Gateway requires (Gateway API `FrontendTLSConfig`), by default and by port.

use std::collections::BTreeMap;

use fairway_model::{ClientCertificateMode, ClientVerification};
use fairway_objects::gateway_api::{FrontendTls, FrontendTlsValidation, Gateway};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::authority::{self, FaultReasons, NamedReference};
use crate::condition::Fault;
use crate::grant::Referrer;

const REASONS: FaultReasons =
    FaultReasons { kind: "InvalidCACertificateKind", reference: "InvalidCACertificateRef" };

/// Client certificate requirements of a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frontend {
    default: ClientRequirements,
    ports: BTreeMap<u16, ClientRequirements>,
}

/// Client certificate requirements of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientRequirements {
    pub(crate) verification: Option<ClientVerification>,
    /// Whether clients without a valid certificate are accepted, even without a usable CA.
    pub(crate) is_insecure: bool,
    /// Why the listeners are not accepted.
    pub(crate) refused: Option<Fault>,
    /// The invalid reference.
    pub(crate) unresolved: Option<Fault>,
}

/// ConfigMaps and Secrets that a Gateway references for it.
pub(crate) fn named_references(gateway: &Gateway, namespace: &str) -> Vec<ObjectRef> {
    let Some(frontend) = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref()) else {
        return Vec::new();
    };
    let validations = validations(frontend).flat_map(|it| &it.ca_certificate_refs);
    let keyed = validations.map(|it| (it, key(it.namespace.as_deref(), namespace, &it.name)));
    keyed
        .filter_map(|(it, key)| NamedReference { group: &it.group, kind: &it.kind, key: &key }.object())
        .collect()
}

fn validations(frontend: &FrontendTls) -> impl Iterator<Item = &FrontendTlsValidation> {
    let ports = frontend.per_port.iter().map(|port| &port.tls);
    [&frontend.default].into_iter().chain(ports).filter_map(|tls| tls.validation.as_ref())
}

fn key(namespace: Option<&str>, own_namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(namespace.filter(|it| !it.is_empty()).unwrap_or(own_namespace), name)
}

impl Frontend {
    /// The requirements of a Gateway.
    pub(crate) fn read(gateway: &Gateway, namespace: &str, inputs: Inputs<'_>) -> Self {
        let Some(frontend) = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref()) else {
            return Self::default();
        };
        let clients = |validation: Option<&FrontendTlsValidation>| {
            validation.map(|it| ClientRequirements::read(it, namespace, inputs)).unwrap_or_default()
        };
        let ports = frontend
            .per_port
            .iter()
            .filter_map(|port| Some((u16::try_from(port.port).ok()?, clients(port.tls.validation.as_ref()))));
        Self { default: clients(frontend.default.validation.as_ref()), ports: ports.collect() }
    }

    /// The requirements of a port.
    pub(crate) fn requirements_of(&self, port: u16) -> &ClientRequirements {
        self.ports.get(&port).unwrap_or(&self.default)
    }

    /// Whether clients without a valid certificate are accepted.
    pub(crate) fn is_insecure(&self) -> bool {
        [&self.default].into_iter().chain(self.ports.values()).any(|clients| clients.is_insecure)
    }
}

impl ClientRequirements {
    fn read(validation: &FrontendTlsValidation, namespace: &str, inputs: Inputs<'_>) -> Self {
        let demand = match validation.mode.as_deref() {
            None | Some("" | "AllowValidOnly") => ClientCertificateMode::Required,
            Some("AllowInsecureFallback") => ClientCertificateMode::Unverified,
            Some(mode) => {
                let fault =
                    Fault::new("UnsupportedValue", format!("the validation mode {mode} is not known"));
                return Self { refused: Some(fault), ..Self::default() };
            }
        };
        let is_insecure = demand == ClientCertificateMode::Unverified;
        let keys: Vec<_> = validation.ca_certificate_refs.iter().collect();
        let keys: Vec<_> =
            keys.iter().map(|it| (it, key(it.namespace.as_deref(), namespace, &it.name))).collect();
        let all = keys.iter().map(|(it, key)| NamedReference { group: &it.group, kind: &it.kind, key });
        let from = Referrer { kind: Kind::Gateway, namespace };
        let (roots, faults) = authority::resolve_all(all, from, inputs, REASONS);
        let unresolved = faults.into_iter().next();
        match roots {
            None => {
                let problem = "no certificate of an authority is left by which clients can be verified";
                let refused = Some(Fault::new("NoValidCACertificate", problem));
                let none = || Fault::new(REASONS.reference, "caCertificateRefs is empty");
                let unresolved = Some(unresolved.unwrap_or_else(none));
                Self { verification: None, is_insecure, refused, unresolved }
            }
            Some(roots) => {
                let verification = ClientVerification { roots, revoked: "".into(), depth: None, demand };
                Self { verification: Some(verification), is_insecure, refused: None, unresolved }
            }
        }
    }
}
