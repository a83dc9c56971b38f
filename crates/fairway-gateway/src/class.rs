//! GatewayClasses: whether they belong to this controller and are accepted.

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::GatewayClass;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};

use crate::condition::{ACCEPTED, Condition, Fault, SUPPORTED_VERSION};
use crate::parameters::{self, Parameters};
use crate::status::{ClassStatus, ObjectStatus, OwnStatus};
use crate::{features, release};

/// A GatewayClass of this controller.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    /// Parameters of its Gateways, or why the class is not accepted.
    pub(crate) parameters: Result<Parameters, Fault>,
    /// Whether its Gateways share the address of Ingresses by default.
    pub(crate) is_shared: bool,
    /// The object of `parametersRef`.
    pub(crate) named: Option<ObjectRef>,
    pub(crate) status: ObjectStatus,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The ConfigMap that a class names.
pub(crate) fn parameters_reference(class: &GatewayClass) -> Option<ObjectRef> {
    let reference = class.spec.parameters_ref.as_ref()?;
    let key = ObjectKey::new(reference.namespace.as_deref().unwrap_or_default(), &reference.name);
    Some(ObjectRef::new(Kind::ConfigMap, key))
}

/// Reads a class; `None` if it belongs to another controller.
pub(crate) fn read(key: &ObjectKey, class: &Sourced<GatewayClass>, inputs: Inputs<'_>) -> Option<Class> {
    let controller = &inputs.options.gateways.controller;
    let object = &class.object;
    if *object.spec.controller_name != **controller {
        return None;
    }
    let named = parameters_reference(object);
    let parameters = match (&object.spec.parameters_ref, &named) {
        (Some(reference), Some(named)) => {
            parameters::read(&reference.group, &reference.kind, &named.key, inputs)
        }
        _ => Ok(Parameters::new()),
    };
    let fault = parameters.as_ref().err();
    let unsupported = release::unsupported(&inputs.resources.gateway.releases);
    let conditions = vec![
        Condition::true_unless(ACCEPTED, fault, "Accepted", "its Gateways are served"),
        Condition::true_unless(
            SUPPORTED_VERSION,
            unsupported.as_ref(),
            "SupportedVersion",
            "the Gateway API is served as of v1.7.0",
        ),
    ];
    let status = OwnStatus::Class(Box::new(ClassStatus { conditions, features: features::SERVED }));
    let diagnostics = fault.map(|fault| {
        let origin = class.origin(Kind::GatewayClass, key, "spec.parametersRef");
        let found = Diagnostic::new(Severity::Error, "invalid-parameters", origin);
        found.because(
            fault.message.clone(),
            "its Gateways keep the Services that they have, as they are, and get no new ones",
        )
    });
    let unsupported = unsupported.map(|fault| {
        let origin = class.origin(Kind::GatewayClass, key, "");
        let found = Diagnostic::new(Severity::Warning, "unsupported-version", origin);
        found.because(fault.message, "fields and kinds that are new in them have no effect")
    });
    let diagnostics = diagnostics.into_iter().chain(unsupported).collect();
    Some(Class {
        status: ObjectStatus::new(&object.metadata, controller, status),
        parameters,
        is_shared: named
            .as_ref()
            .and_then(|named| parameters::is_shared(&named.key, inputs))
            .unwrap_or(false),
        named,
        diagnostics,
    })
}
