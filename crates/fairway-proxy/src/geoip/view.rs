//! A worker's view of the databases, refreshed when they are replaced.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::{GeoFields, GeoKind};

use super::location::Location;
use super::shared::{Databases, SharedDatabases};

/// The view of one worker.
pub(crate) struct GeoIpView {
    shared: Arc<SharedDatabases>,
    adopted: RefCell<AdoptedDatabases>,
}

struct AdoptedDatabases {
    version: u64,
    databases: Arc<Databases>,
}

impl GeoIpView {
    pub(super) fn new(shared: Arc<SharedDatabases>) -> Self {
        // Version first: databases replaced in between are then fetched again.
        let adopted = AdoptedDatabases { version: shared.version(), databases: shared.current() };
        Self { shared, adopted: RefCell::new(adopted) }
    }

    /// Switches to the current databases. Called once a second as well, so that an idle worker keeps no old
    /// ones.
    pub(crate) fn refresh(&self) {
        let version = self.shared.version();
        if self.adopted.borrow().version != version {
            *self.adopted.borrow_mut() = AdoptedDatabases { version, databases: self.shared.current() };
        }
    }

    /// Looks up the fields for the client that are not yet in `location`.
    pub(crate) fn locate(&self, fields: GeoFields, client: Option<IpAddr>, location: &mut Location) {
        let fields = fields.without(location.looked_up());
        if fields.is_empty() {
            return;
        }
        self.refresh();
        let databases = &self.adopted.borrow().databases;
        for kind in [GeoKind::Places, GeoKind::Networks] {
            let fields = fields.iter().filter(|field| field.kind() == kind).collect::<GeoFields>();
            if !fields.is_empty() {
                let database = databases.of_kind(kind);
                if database.is_none() {
                    self.shared.report_missing(kind);
                }
                let found = database.zip(client).and_then(|(database, client)| database.look_up(client));
                location.add(kind, fields, found.as_ref());
            }
        }
    }
}
