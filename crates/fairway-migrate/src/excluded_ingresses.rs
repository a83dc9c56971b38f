//! Detects Ingresses of ingress-nginx that the options exclude, although a user who plans to migrate wants them checked.

use std::collections::BTreeSet;

use fairway_model::{Origin, SourceLine};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::Object;
use fairway_objects::options::Options;
use fairway_objects::resources::Change;

/// `spec.controller` of the IngressClasses of ingress-nginx.
pub(crate) const INGRESS_NGINX_CONTROLLER: &str = "k8s.io/ingress-nginx";
/// The annotation for the class of Ingresses without `spec.ingressClassName`.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// A note at the first Ingress of ingress-nginx with their number, if the options serve none of them.
#[must_use]
pub fn left_to_ingress_nginx(changes: &[Change], options: &Options) -> Option<Diagnostic> {
    if options.controllers.iter().any(|controller| **controller == *INGRESS_NGINX_CONTROLLER) {
        return None;
    }
    let set = || {
        changes.iter().filter_map(|change| match change {
            Change::Set(object, source) => Some((object, source)),
            _ => None,
        })
    };
    let classes: BTreeSet<&str> = set()
        .filter_map(|(object, _)| match object {
            Object::IngressClass(class) => Some(class),
            _ => None,
        })
        .filter(|class| {
            class.spec.as_ref().is_some_and(|it| it.controller.as_deref() == Some(INGRESS_NGINX_CONTROLLER))
        })
        .filter_map(|class| class.metadata.name.as_deref())
        .collect();
    let mut found = set().filter_map(|(object, source)| {
        let Object::Ingress(ingress) = object else { return None };
        let field = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        let annotation = || ingress.metadata.annotations.as_ref()?.get(CLASS_ANNOTATION).map(String::as_str);
        let (class, place) = match field {
            Some(class) => (class, "spec.ingressClassName".to_owned()),
            None => (annotation()?, format!("metadata.annotations[\"{CLASS_ANNOTATION}\"]")),
        };
        let served = options.ingress_classes.iter().any(|ours| **ours == *class);
        let is_of_ingress_nginx = classes.contains(class) || (field.is_none() && class == "nginx" && !served);
        is_of_ingress_nginx.then_some((ingress, source, place, class))
    });
    let (ingress, source, place, class) = found.next()?;
    let unnamed = found.count();
    let namespace = ingress.metadata.namespace.as_deref().unwrap_or("default");
    let name = ingress.metadata.name.as_deref().unwrap_or_default();
    let source = source.as_ref().map(|source| SourceLine { file: source.file.clone(), line: source.line });
    let origin = Origin { source, ..Origin::object("Ingress", namespace, name).at(place) };
    let problem = match unnamed {
        0 => format!("{class} is a class of ingress-nginx"),
        1 => format!("{class} is a class of ingress-nginx, as is that of 1 more Ingress"),
        _ => format!("{class} is a class of ingress-nginx, as are those of {unnamed} more Ingresses"),
    };
    let consequence = "not served or checked without --ingress-class-compat";
    Some(Diagnostic::new(Severity::Note, "ingress-class", origin).because(problem, consequence))
}
