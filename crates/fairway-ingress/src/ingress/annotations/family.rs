//! The definition of a family of annotations: its names and how they are read.

use fairway_objects::references::ReferencedObjects;

use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::reader::{Annotations, Reader};

/// A group of related annotations.
pub(crate) struct Family {
    /// Its annotations.
    pub(crate) annotations: &'static [KnownAnnotation],
    /// Adds the objects that they reference, existing or not.
    pub(crate) add_references: fn(&Annotations<'_>, &mut ReferencedObjects),
    /// Reads them, or returns why the paths of the Ingress are closed.
    pub(crate) read: ReadFamily,
}

/// Reads the annotations of a family.
pub(crate) type ReadFamily = fn(&mut Reader<'_>, &Context<'_>, &mut Contributions) -> Result<(), Closed>;

/// An annotation of ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAnnotation {
    /// Its name without prefix.
    pub name: &'static str,
    /// Whether and how it is supported.
    pub support: Support,
    /// The newer spelling, if any.
    pub alias_of: Option<&'static str>,
}

/// Whether and how an annotation is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As in ingress-nginx.
    Done,
    /// Supported, with deliberate differences from ingress-nginx.
    Differs {
        /// The differences, in Markdown.
        how: &'static str,
    },
    /// Not needed: requests are served as intended without it.
    Needless {
        /// The reason, in Markdown.
        why: &'static str,
    },
    /// Not supported yet.
    Missing {
        /// What is missing.
        class: AnnotationClass,
        /// What is missing, as the end of a sentence.
        effect: &'static str,
        /// Values that equal the default, so nothing is missing.
        inert: &'static [&'static str],
    },
}

/// What an annotation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationClass {
    /// A feature: without it, requests are served differently.
    Feature,
    /// The purpose of the Ingress: without it, the Ingress is not served.
    Purpose,
}

/// An annotation that works as in ingress-nginx.
pub(crate) const fn supported(name: &'static str) -> KnownAnnotation {
    KnownAnnotation { name, support: Support::Done, alias_of: None }
}

/// An annotation that differs from ingress-nginx.
pub(crate) const fn differs(name: &'static str, how: &'static str) -> KnownAnnotation {
    KnownAnnotation { name, support: Support::Differs { how }, alias_of: None }
}

/// An annotation that is not needed.
pub(crate) const fn needless(name: &'static str, why: &'static str) -> KnownAnnotation {
    KnownAnnotation { name, support: Support::Needless { why }, alias_of: None }
}

/// A feature that is not supported.
pub(crate) const fn missing_feature(
    name: &'static str,
    effect: &'static str,
    inert: &'static [&'static str],
) -> KnownAnnotation {
    unsupported(name, AnnotationClass::Feature, effect, inert)
}

/// An annotation that is not supported.
pub(crate) const fn unsupported(
    name: &'static str,
    class: AnnotationClass,
    effect: &'static str,
    inert: &'static [&'static str],
) -> KnownAnnotation {
    KnownAnnotation { name, support: Support::Missing { class, effect, inert }, alias_of: None }
}

impl KnownAnnotation {
    /// Marks the annotation as an older spelling of `newer`.
    pub(crate) const fn alias_of(mut self, newer: &'static str) -> Self {
        self.alias_of = Some(newer);
        self
    }
}

impl Family {
    /// A family without object references.
    pub(crate) const fn new(annotations: &'static [KnownAnnotation], read: ReadFamily) -> Self {
        Self { annotations, add_references: |_, _| {}, read }
    }

    /// Adds object references to the family.
    pub(crate) const fn with_references(
        mut self,
        refer: fn(&Annotations<'_>, &mut ReferencedObjects),
    ) -> Self {
        self.add_references = refer;
        self
    }
}
