//! The input of the conversion: the Ingresses, their translation, and the user's choices.

use std::collections::BTreeSet;

use fairway_ingress::Translation;
use fairway_model::{Backend, BackendKey, Config, SessionKey};
use fairway_objects::object::ObjectKey;
use fairway_objects::resources::Resources;
use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::report::Ingresses;

/// The Ingresses to convert.
#[derive(Debug)]
pub struct Input<'i> {
    /// The Ingresses as they are written.
    pub ingresses: &'i Ingresses,
    /// Their translation.
    pub translation: &'i Translation,
    /// All objects that were read.
    pub resources: &'i Resources,
    /// The prefix of annotations.
    pub prefix: &'i str,
}

/// The choices of the user.
#[derive(Clone, Debug)]
pub struct ConversionOptions {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// The name of its GatewayClass.
    pub class: String,
    /// The port of its plain HTTP listeners.
    pub http_port: u16,
    /// The port of its listeners with TLS.
    pub https_port: u16,
    /// Whether to serve a path without a protection, match or rewrite that the Gateway API cannot express. Otherwise the path
    /// is closed and returns 500.
    pub allow_loss: bool,
}

/// The default GatewayClass of Fairway.
pub(crate) const OWN_CLASS: &str = "fairway";

impl ConversionOptions {
    /// Whether the Gateway is one of Fairway, which Fairway's policies and filters require.
    pub(crate) fn has_own_kinds(&self) -> bool {
        self.class == OWN_CLASS
    }
}

impl<'i> Input<'i> {
    /// The translated configuration.
    pub(crate) fn config(&self) -> &'i Config {
        &self.translation.config
    }

    /// A backend of the configuration.
    pub(crate) fn backend(&self, key: &BackendKey) -> Option<&'i Backend> {
        self.config().backends.get(key).map(|backend| &**backend)
    }

    /// The port of a Service by `written`, a number or a name. Routes refer to Service ports by number only.
    pub(crate) fn port(&self, service: &ObjectKey, written: &str) -> Option<ServicePort> {
        let found = self.resources.services.get(service)?;
        let ports = &found.object.ports;
        let targets = |port: &&ServicePort| match &port.target_port {
            Some(IntOrString::Int(number)) => number.to_string() == written,
            Some(IntOrString::String(name)) => name == written,
            None => false,
        };
        let by_number = ports.iter().find(|port| port.port.to_string() == written);
        let by_name = || ports.iter().find(|port| port.name.as_deref() == Some(written));
        let found = by_number.or_else(by_name).or_else(|| ports.iter().find(targets));
        let headless = || {
            let number = written.parse().ok().filter(|_| ports.is_empty())?;
            Some(ServicePort { port: number, ..ServicePort::default() })
        };
        found.cloned().or_else(headless)
    }

    /// The names of session cookies. Conditions on them do not belong to a canary.
    pub(crate) fn session_cookies(&self) -> BTreeSet<&'i str> {
        let sessions = self.config().backends.values().filter_map(|backend| backend.session.as_ref());
        let named = sessions.filter_map(|session| match session {
            SessionKey::Cookie(cookie) => Some(&*cookie.name),
            SessionKey::Hash(_) => None,
        });
        named.collect()
    }
}
