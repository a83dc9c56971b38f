//! Which Ingresses are this controller's: IngressClass, the older annotation, or no class at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{ObjectKey, Sourced};
use fairway_objects::options::{Options, WithoutClass};
use fairway_objects::resources::Resources;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

use crate::ingress::reader::Reader;

/// The annotation that names the class of an Ingress, from before `spec.ingressClassName`.
pub(crate) const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// The classes that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes {
    ours: BTreeSet<Arc<str>>,
    others: BTreeSet<Arc<str>>,
    /// What becomes of an Ingress that names no class.
    without_class: WithoutClass,
    /// What the flag calls ours without an object.
    names: BTreeSet<Arc<str>>,
}

/// Whose an Ingress is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Ours.
    Ours,
    /// Ours by the name alone: there is no such IngressClass object.
    OursByName(Arc<str>),
    /// Another controller's.
    Others,
    /// It names a class that does not exist.
    NoSuchClass(Arc<str>),
    /// It names none, and such are not served.
    Classless,
}

/// How an Ingress names its class: all of it that decides whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedClass {
    Field(Arc<str>),
    /// Not empty.
    Annotation(Arc<str>),
    None,
}

impl NamedClass {
    pub(crate) fn of(ingress: &Ingress) -> Self {
        let annotation = || ingress.metadata.annotations.as_ref()?.get(CLASS_ANNOTATION);
        let field = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        match (field, annotation().map(String::as_str)) {
            (Some(name), _) => Self::Field(name.into()),
            (None, Some(name)) if !name.is_empty() => Self::Annotation(name.into()),
            _ => Self::None,
        }
    }
}

impl Selection {
    /// Whether it is served.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self, Self::Ours | Self::OursByName(_))
    }

    /// Says what the author of the Ingress should know of it.
    pub(crate) fn report(&self, reader: &mut Reader<'_>) {
        let (severity, problem, consequence) = match self {
            Self::Ours | Self::Others => return,
            Self::OursByName(name) => (
                Severity::Note,
                format!("IngressClass {name} does not exist"),
                "it is served because the name is one of ours",
            ),
            Self::NoSuchClass(name) => {
                (Severity::Warning, format!("IngressClass {name} does not exist"), "it is not served")
            }
            Self::Classless => {
                let problem = "it names no class and none of ours is the default".to_owned();
                (Severity::Note, problem, "it is not served")
            }
        };
        let origin = reader.field("spec.ingressClassName");
        reader.report(Diagnostic::new(severity, "ingress-class", origin).because(problem, consequence));
    }
}

impl Classes {
    /// Reads the IngressClass objects.
    pub(crate) fn read(resources: &Resources, options: &Options) -> Self {
        let named =
            |(key, class): (&ObjectKey, &Sourced<IngressClass>)| (key.name.clone(), class.object.clone());
        Self::of(resources.classes.iter().map(named), options)
    }

    /// Reads IngressClass objects by name.
    pub(crate) fn of(
        objects: impl Iterator<Item = (Arc<str>, Arc<IngressClass>)>,
        options: &Options,
    ) -> Self {
        let mut classes = Self::default();
        classes.names.extend(options.ingress_classes.iter().cloned());
        classes.without_class = options.without_class;
        for (name, class) in objects {
            if is_ours(&class, options) {
                classes.ours.insert(name);
                if is_default(&class) {
                    classes.without_class = WithoutClass::Served;
                }
            } else {
                classes.others.insert(name);
            }
        }
        classes
    }

    /// Whose an Ingress is: `spec.ingressClassName`, else the annotation, else none (ingress-nginx `GetIngressClass`).
    pub(crate) fn selection(&self, ingress: &Ingress) -> Selection {
        self.selection_by(&NamedClass::of(ingress))
    }

    /// Whose an Ingress is that names its class so.
    pub(crate) fn selection_by(&self, named: &NamedClass) -> Selection {
        match named {
            NamedClass::Field(name) => self.by_field(name),
            NamedClass::Annotation(name) if self.ours.contains(name) || self.names.contains(name) => {
                Selection::Ours
            }
            NamedClass::Annotation(_) => Selection::Others,
            NamedClass::None if self.without_class == WithoutClass::Served => Selection::Ours,
            NamedClass::None => Selection::Classless,
        }
    }

    fn by_field(&self, name: &str) -> Selection {
        if self.ours.contains(name) {
            Selection::Ours
        } else if self.others.contains(name) {
            Selection::Others
        } else if self.names.contains(name) {
            Selection::OursByName(name.into())
        } else {
            Selection::NoSuchClass(name.into())
        }
    }
}

fn is_ours(class: &IngressClass, options: &Options) -> bool {
    let controller = class.spec.as_ref().and_then(|spec| spec.controller.as_deref());
    controller.is_some_and(|controller| options.controllers.iter().any(|ours| **ours == *controller))
}

fn is_default(class: &IngressClass) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(DEFAULT_ANNOTATION)).is_some_and(|value| value == "true")
}
