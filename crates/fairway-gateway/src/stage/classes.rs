//! Reads the classes that are marked, and marks their Gateways.

use std::sync::Arc;

use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectRef;

use crate::class;
use crate::naming::class_reference;
use crate::state::Gateways;
use crate::work::Work;

impl Gateways {
    /// Reads classes.
    pub(crate) fn read_classes(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for key in std::mem::take(&mut work.classes) {
            let object = inputs.resources.gateway.classes.get(&key);
            let class = object.and_then(|object| class::read(&key, object, inputs));
            let reference: ObjectRef = class_reference(&key.name);
            let found = class.as_ref().map(|class| class.diagnostics.clone()).unwrap_or_default();
            work.pieces.diagnostics.push((reference.clone(), found));
            match class {
                Some(class) => {
                    self.set_status(&reference, Some(class.status.clone()));
                    self.listening.classes.insert(key, Arc::new(class));
                }
                None => {
                    self.set_status(&reference, None);
                    self.listening.classes.remove(&key);
                }
            }
            self.mark_dependent(&reference, work);
        }
    }
}
