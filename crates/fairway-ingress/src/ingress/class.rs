//! Which Ingresses belong to this controller: by IngressClass, by the older annotation, or without a class.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{ObjectKey, Sourced};
use fairway_objects::options::{Options, WithoutClass};
use fairway_objects::resources::Resources;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

use crate::ingress::reader::Reader;

/// The annotation that named the class before `spec.ingressClassName` existed.
pub(crate) const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// The existing classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes {
    ours: BTreeSet<Arc<str>>,
    others: BTreeSet<Arc<str>>,
    /// How Ingresses without a class are treated.
    without_class: WithoutClass,
    /// Class names from the flag that need no object.
    names: BTreeSet<Arc<str>>,
}

/// Whether an Ingress belongs to this controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClassSelection {
    /// Ours.
    Ours,
    /// By name only: the IngressClass object does not exist.
    OursByName(Arc<str>),
    /// It belongs to another controller.
    Others,
    /// Its class does not exist.
    NoSuchClass(Arc<str>),
    /// It has no class, and such Ingresses are not served.
    Classless,
}

/// How an Ingress names its class; nothing else decides who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedClass {
    Field(Arc<str>),
    /// Not empty.
    Annotation(Arc<str>),
    None,
}

impl NamedClass {
    pub(crate) fn from_ingress(ingress: &Ingress) -> Self {
        let annotation = || ingress.metadata.annotations.as_ref()?.get(CLASS_ANNOTATION);
        let field = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        match (field, annotation().map(String::as_str)) {
            (Some(name), _) => Self::Field(name.into()),
            (None, Some(name)) if !name.is_empty() => Self::Annotation(name.into()),
            _ => Self::None,
        }
    }
}

impl ClassSelection {
    /// Whether the Ingress is served.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self, Self::Ours | Self::OursByName(_))
    }

    /// Reports problems to the author of the Ingress.
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
        let origin = reader.field_origin("spec.ingressClassName");
        reader.report(Diagnostic::new(severity, "ingress-class", origin).because(problem, consequence));
    }
}

impl Classes {
    /// Reads the IngressClass objects.
    pub(crate) fn read(resources: &Resources, options: &Options) -> Self {
        let named =
            |(key, class): (&ObjectKey, &Sourced<IngressClass>)| (key.name.clone(), class.object.clone());
        Self::from_objects(resources.classes.iter().map(named), options)
    }

    /// From IngressClass objects by name.
    pub(crate) fn from_objects(
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

    /// Selects by `spec.ingressClassName`, else the annotation, else no class (ingress-nginx `GetIngressClass`).
    pub(crate) fn selection(&self, ingress: &Ingress) -> ClassSelection {
        self.selection_for(&NamedClass::from_ingress(ingress))
    }

    /// Selects by a named class.
    pub(crate) fn selection_for(&self, named: &NamedClass) -> ClassSelection {
        match named {
            NamedClass::Field(name) => self.by_field(name),
            NamedClass::Annotation(name) if self.ours.contains(name) || self.names.contains(name) => {
                ClassSelection::Ours
            }
            NamedClass::Annotation(_) => ClassSelection::Others,
            NamedClass::None if self.without_class == WithoutClass::Served => ClassSelection::Ours,
            NamedClass::None => ClassSelection::Classless,
        }
    }

    fn by_field(&self, name: &str) -> ClassSelection {
        if self.ours.contains(name) {
            ClassSelection::Ours
        } else if self.others.contains(name) {
            ClassSelection::Others
        } else if self.names.contains(name) {
            ClassSelection::OursByName(name.into())
        } else {
            ClassSelection::NoSuchClass(name.into())
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
