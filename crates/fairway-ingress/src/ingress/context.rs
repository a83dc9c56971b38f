//! Inputs for reading Ingresses.

use fairway_objects::inputs::Inputs;

use crate::ingress::defaults::Defaults;

/// The objects, the operator's options and the defaults of Ingresses.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) defaults: &'a Defaults,
}
