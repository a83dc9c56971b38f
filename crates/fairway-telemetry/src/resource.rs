//! The sender's identity: the resource and scope of every message (OpenTelemetry semantic conventions for resources).

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::attributes::text;

/// What is known about this process; empty texts are unknown.
#[derive(Clone, Debug, Default)]
pub struct ProcessIdentity {
    /// The attribute `service.version`, and the version of the scope.
    pub version: String,
    /// The attribute `service.instance.id`, unique per process.
    pub instance: String,
    /// The attribute `host.name`.
    pub host: String,
    /// The attribute `k8s.pod.name`.
    pub pod: String,
    /// The attribute `k8s.namespace.name`, of the pod.
    pub namespace: String,
}

impl ProcessIdentity {
    /// The resource of a service with this name.
    pub(crate) fn resource(&self, service: &str) -> Resource {
        let known = [
            ("service.name", service),
            ("service.version", &self.version),
            ("service.instance.id", &self.instance),
            ("host.name", &self.host),
            ("k8s.pod.name", &self.pod),
            ("k8s.namespace.name", &self.namespace),
        ];
        let known = known.into_iter().filter(|(_, value)| !value.is_empty());
        Resource { attributes: known.map(|(key, value)| text(key, value)).collect(), ..Resource::default() }
    }

    /// The scope of everything that is sent.
    pub(crate) fn scope(&self) -> InstrumentationScope {
        InstrumentationScope {
            name: "fairway".to_owned(),
            version: self.version.clone(),
            ..InstrumentationScope::default()
        }
    }
}
