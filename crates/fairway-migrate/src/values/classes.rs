//! The classes to serve: the controller of IngressClass objects, and classes by name.

use super::input::Input;
use super::outcome::Conversion;
use crate::excluded_ingresses::INGRESS_NGINX_CONTROLLER;

/// The default class of the ingress-nginx chart.
const DEFAULT_CLASS: &str = "nginx";

const CLASS_NAME_PATH: &str = "controller.ingressClassResource.name";

/// Serves the classes of this ingress-nginx, and does not create an IngressClass that already belongs to it.
pub(super) fn finish(input: Input<'_>, outcome: &mut Conversion) {
    let controller = input
        .text(&["controller.extraArgs.controller-class", "controller.ingressClassResource.controllerValue"]);
    let written = input.name(&["controller.extraArgs.ingress-class", "controller.ingressClass"]);
    let (controller, written) =
        (controller.unwrap_or(INGRESS_NGINX_CONTROLLER), written.unwrap_or(DEFAULT_CLASS));
    let object = input.name(&[CLASS_NAME_PATH]).unwrap_or(DEFAULT_CLASS);
    let is_made = !input.is_false("controller.ingressClassResource.enabled");
    outcome.set("ingressClass.compat", (controller == INGRESS_NGINX_CONTROLLER).into());
    if controller != INGRESS_NGINX_CONTROLLER {
        let argument = format!("--controller-class=fairway.dev/ingress-controller,{controller}");
        outcome.push("extraArgs", argument.into());
    }
    // IngressClass objects are found by their controller; the name matters only for Ingresses with the annotation.
    let name = match (controller, written, object) {
        (INGRESS_NGINX_CONTROLLER, DEFAULT_CLASS, DEFAULT_CLASS) => None,
        (INGRESS_NGINX_CONTROLLER, DEFAULT_CLASS, object) => Some(object),
        _ => Some(written),
    };
    if let Some(name) = name {
        outcome.set("ingressClass.name", name.into());
    }
    if name == Some(object) && is_made {
        outcome.set("ingressClass.enabled", false.into());
        let remark = format!(
            "the IngressClass {object} belongs to ingress-nginx: set ingressClass.enabled to true when that is removed"
        );
        outcome.add_note(CLASS_NAME_PATH, &remark);
    } else if !is_made {
        outcome.set("ingressClass.enabled", false.into());
    }
    if input.is_true("controller.ingressClassResource.default") {
        let remark = "the cluster would have two default classes: set ingressClass.default to true when \
                    ingress-nginx is removed";
        outcome.add_note("controller.ingressClassResource.default", remark);
    }
}
