//! What a family of annotations is: its names, and how they are read. Owns no name.

use fairway_objects::references::Referenced;

use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::reader::{Annotations, Reader};

/// Annotations that belong together.
pub(crate) struct Family {
    /// Its annotations.
    pub(crate) annotations: &'static [Known],
    /// Adds the objects that they name, whether they exist or not.
    pub(crate) refer: fn(&Annotations<'_>, &mut Referenced),
    /// Reads them, or says why the paths of the Ingress answer 503.
    pub(crate) read: Read,
}

/// Reads the annotations of a family.
pub(crate) type Read = fn(&mut Reader<'_>, &Context<'_>, &mut Contributions) -> Result<(), Closed>;

/// An annotation of ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name without prefix.
    pub name: &'static str,
    /// What becomes of it.
    pub support: Support,
    /// The newer spelling, if it has one.
    pub alias_of: Option<&'static str>,
}

/// What becomes of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It has the effect that it has in ingress-nginx.
    Done,
    /// It works, and deliberately not quite as in ingress-nginx.
    Differs {
        /// What is not the same, in Markdown.
        how: &'static str,
    },
    /// There is nothing to do for it: requests are answered as they should be without.
    Needless {
        /// Why, in Markdown.
        why: &'static str,
    },
    /// It does not work yet.
    Missing {
        /// What kind of thing is lost.
        class: Class,
        /// What is lost, as the end of a sentence.
        effect: &'static str,
        /// Values that ask for nothing, with which nothing is lost.
        inert: &'static [&'static str],
    },
}

/// What kind of thing an annotation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It changes how requests are served: without it they are served otherwise.
    Feature,
    /// It says what the Ingress as a whole is for: without it the Ingress is not served.
    Purpose,
}

/// An annotation with the same effect as in ingress-nginx.
pub(crate) const fn done(name: &'static str) -> Known {
    Known { name, support: Support::Done, alias_of: None }
}

/// An annotation that works otherwise than in ingress-nginx.
pub(crate) const fn differs(name: &'static str, how: &'static str) -> Known {
    Known { name, support: Support::Differs { how }, alias_of: None }
}

/// An annotation for which there is nothing to do.
pub(crate) const fn needless(name: &'static str, why: &'static str) -> Known {
    Known { name, support: Support::Needless { why }, alias_of: None }
}

/// A feature that is missing.
pub(crate) const fn offers(
    name: &'static str,
    effect: &'static str,
    inert: &'static [&'static str],
) -> Known {
    missing(name, Class::Feature, effect, inert)
}

/// An annotation without which the Ingress makes no sense.
pub(crate) const fn missing(
    name: &'static str,
    class: Class,
    effect: &'static str,
    inert: &'static [&'static str],
) -> Known {
    Known { name, support: Support::Missing { class, effect, inert }, alias_of: None }
}

impl Known {
    /// The same as an older spelling of `newer`.
    pub(crate) const fn alias_of(mut self, newer: &'static str) -> Self {
        self.alias_of = Some(newer);
        self
    }
}

impl Family {
    /// A family that names no objects.
    pub(crate) const fn new(annotations: &'static [Known], read: Read) -> Self {
        Self { annotations, refer: |_, _| {}, read }
    }

    /// The same with the objects that it names.
    pub(crate) const fn referring(mut self, refer: fn(&Annotations<'_>, &mut Referenced)) -> Self {
        self.refer = refer;
        self
    }
}
