//! Reads the marked classes, and marks Gateways whose parameters change.

use std::sync::Arc;

use fairway_objects::inputs::Inputs;
use fairway_objects::object::ObjectRef;

use crate::class::{self, Class};
use crate::naming::class_reference;
use crate::state::Gateways;
use crate::work::Work;

impl Gateways {
    /// Reads classes.
    pub(crate) fn read_classes(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for key in std::mem::take(&mut work.classes) {
            let object = inputs.resources.gateway.classes.get(&key);
            let class = object.and_then(|object| class::read(&key, object, inputs)).map(Arc::new);
            let reference: ObjectRef = class_reference(&key.name);
            let found = class.as_ref().map(|class| class.diagnostics.clone()).unwrap_or_default();
            work.changes.diagnostics.push((reference.clone(), found));
            self.set_status(&reference, class.as_ref().map(|class| class.status.clone()));
            let before = match &class {
                Some(class) => self.listening.classes.insert(key, class.clone()),
                None => self.listening.classes.remove(&key),
            };
            // Gateways depend on nothing else of their class, least of all its status.
            let (old, new) = (before.as_deref(), class.as_deref());
            let read = |class: Option<&Class>| class.map(|it| (it.parameters.clone(), it.is_shared));
            if read(old) != read(new) {
                self.mark_dependent(&reference, work);
            }
        }
    }
}
