//! The databases as one worker sees them: it takes others when there are others, and else asks nobody.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::{GeoFields, GeoKind};

use super::location::Location;
use super::shared::{Databases, Shared};

/// A worker's view.
pub(crate) struct View {
    shared: Arc<Shared>,
    adopted: RefCell<Adopted>,
}

struct Adopted {
    version: u64,
    databases: Arc<Databases>,
}

impl View {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        // The version first: databases that come between the two are taken again.
        let adopted = Adopted { version: shared.version(), databases: shared.current() };
        Self { shared, adopted: RefCell::new(adopted) }
    }

    /// Takes the databases that are in use now. Once a second as well, so that a worker without requests keeps no old one.
    pub(crate) fn adopt(&self) {
        let version = self.shared.version();
        if self.adopted.borrow().version != version {
            *self.adopted.borrow_mut() = Adopted { version, databases: self.shared.current() };
        }
    }

    /// Notes what the databases say of the client in these fields, as far as it is not noted yet.
    pub(crate) fn locate(&self, fields: GeoFields, client: Option<IpAddr>, location: &mut Location) {
        let fields = fields.without(location.asked());
        if fields.is_empty() {
            return;
        }
        self.adopt();
        let databases = &self.adopted.borrow().databases;
        for kind in [GeoKind::Places, GeoKind::Networks] {
            let fields = fields.iter().filter(|field| field.kind() == kind).collect::<GeoFields>();
            if !fields.is_empty() {
                let database = databases.of(kind);
                if database.is_none() {
                    self.shared.report_missing(kind);
                }
                let found = database.zip(client).and_then(|(of, client)| of.look_up(client));
                location.note(kind, fields, found.as_ref());
            }
        }
    }
}
