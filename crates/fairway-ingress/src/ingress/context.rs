//! What the readers of Ingresses may look at. Owns nothing.

use fairway_objects::inputs::Inputs;

use crate::ingress::defaults::Defaults;

/// The objects, the operator's choices and the defaults of Ingresses.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) defaults: &'a Defaults,
}
