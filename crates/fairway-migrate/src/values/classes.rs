//! Whose Ingresses are served: the controller of IngressClass objects, and the classes by name.

use super::input::Input;
use super::outcome::Outcome;
use crate::unserved::CONTROLLER;

/// What the chart of ingress-nginx says by default, as it does of the controller.
const CLASS: &str = "nginx";

const OBJECT: &str = "controller.ingressClassResource.name";

/// Serves what this ingress-nginx served, and makes no IngressClass that it has.
pub(super) fn finish(input: Input<'_>, outcome: &mut Outcome) {
    let controller = input
        .text(&["controller.extraArgs.controller-class", "controller.ingressClassResource.controllerValue"]);
    let written = input.name(&["controller.extraArgs.ingress-class", "controller.ingressClass"]);
    let (controller, written) = (controller.unwrap_or(CONTROLLER), written.unwrap_or(CLASS));
    let object = input.name(&[OBJECT]).unwrap_or(CLASS);
    let is_made = !input.is_false("controller.ingressClassResource.enabled");
    outcome.set("ingressClass.compat", (controller == CONTROLLER).into());
    if controller != CONTROLLER {
        let argument = format!("--controller-class=fairway.dev/ingress-controller,{controller}");
        outcome.push("extraArgs", argument.into());
    }
    // Objects are found by their controller: the name counts for Ingresses that have the annotation instead.
    let name = match (controller, written, object) {
        (CONTROLLER, CLASS, CLASS) => None,
        (CONTROLLER, CLASS, object) => Some(object),
        _ => Some(written),
    };
    if let Some(name) = name {
        outcome.set("ingressClass.name", name.into());
    }
    if name == Some(object) && is_made {
        outcome.set("ingressClass.enabled", false.into());
        let what = format!(
            "the IngressClass {object} belongs to ingress-nginx: set ingressClass.enabled to true when that is removed"
        );
        outcome.note(OBJECT, &what);
    } else if !is_made {
        outcome.set("ingressClass.enabled", false.into());
    }
    if input.is_true("controller.ingressClassResource.default") {
        let what = "the cluster would have two default classes: set ingressClass.default to true when \
                    ingress-nginx is removed";
        outcome.note("controller.ingressClassResource.default", what);
    }
}
