//! What moves and where to: the translation of the Ingresses, their text, and the choices of whoever moves them.

use std::collections::BTreeSet;

use fairway_ingress::Translation;
use fairway_model::{Backend, BackendKey, Config, SessionKey};
use fairway_objects::object::ObjectKey;
use fairway_objects::resources::Resources;
use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::report::Ingresses;

/// What moves.
#[derive(Debug)]
pub struct Input<'i> {
    /// The Ingresses as they are written.
    pub ingresses: &'i Ingresses,
    /// What translation made of them.
    pub translation: &'i Translation,
    /// All objects that were read.
    pub resources: &'i Resources,
    /// The prefix of annotations.
    pub prefix: &'i str,
}

/// Where it moves.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// The name of its GatewayClass.
    pub class: String,
    /// The port of its listeners in the clear.
    pub http_port: u16,
    /// The port of its listeners with TLS.
    pub https_port: u16,
    /// Whether to serve a path without a protection, match or rewrite that the Gateway API cannot ask for. Otherwise the path
    /// is closed: its requests are answered 500.
    pub allow_loss: bool,
}

/// The class of Gateways that Fairway serves unless it is told otherwise.
pub(crate) const OWN_CLASS: &str = "fairway";

impl Choice {
    /// Whether the Gateway is one of Fairway, which alone knows its policies and filters.
    pub(crate) fn has_own_kinds(&self) -> bool {
        self.class == OWN_CLASS
    }
}

impl<'i> Input<'i> {
    /// The configuration that the Ingresses lead to.
    pub(crate) fn config(&self) -> &'i Config {
        &self.translation.config
    }

    /// A backend of it.
    pub(crate) fn backend(&self, key: &BackendKey) -> Option<&'i Backend> {
        self.config().backends.get(key).map(|backend| &**backend)
    }

    /// The port of a Service that `written`, a number or a name, stands for. Routes name ports of Services by number alone.
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

    /// The names of cookies that keep clients with an endpoint; conditions on them are no canary's.
    pub(crate) fn session_cookies(&self) -> BTreeSet<&'i str> {
        let sessions = self.config().backends.values().filter_map(|backend| backend.session.as_ref());
        let named = sessions.filter_map(|session| match session {
            SessionKey::Cookie(cookie) => Some(&*cookie.name),
            SessionKey::Hash(_) => None,
        });
        named.collect()
    }
}
