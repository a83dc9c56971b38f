//! Finds hosts by name: route tables with exact names, wildcards and catch-alls. Persistent: a new snapshot shares all
//! hosts that did not change.

use std::collections::HashSet;
use std::sync::Arc;

use fairway_model::{HostKey, HostPattern, Listener, WildcardSpan};
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap};

use crate::hash::FastHashState;
use crate::host::CompiledHost;
use crate::names::{NameTable, Named};
use crate::table::TableId;

/// All route tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    tables: Vec<RouteTable>,
    names: GenericHashMap<Arc<str>, TableId, FastHashState, DefaultSharedPtr>,
}

/// The hosts of one route table.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteTable {
    exact: NameTable<CompiledHost>,
    /// By suffix.
    wildcards: NameTable<Wildcards>,
    any_host: Option<Arc<CompiledHost>>,
    /// The table that is searched for the same requests, if a listener has two.
    beside: Option<TableId>,
}

/// The wildcard hosts of one suffix.
#[derive(Clone, Debug)]
struct Wildcards {
    suffix: Arc<str>,
    one_label: Option<Arc<CompiledHost>>,
    many_labels: Option<Arc<CompiledHost>>,
}

impl Wildcards {
    fn none(suffix: &Arc<str>) -> Self {
        Self { suffix: suffix.clone(), one_label: None, many_labels: None }
    }
}

impl Named for Wildcards {
    fn name(&self) -> &[u8] {
        self.suffix.as_bytes()
    }
}

impl Hosts {
    pub(crate) fn id(&self, table: &str) -> Option<TableId> {
        self.names.get(table).copied()
    }

    pub(crate) fn table(&self, id: TableId) -> Option<&RouteTable> {
        self.tables.get(usize::from(id.0))
    }

    /// Assigns an id to `table`; `None` if there are 65,536 tables already.
    pub(crate) fn ensure(&mut self, table: &Arc<str>) -> Option<TableId> {
        if let Some(id) = self.id(table) {
            return Some(id);
        }
        let vacant = self.vacant()?;
        if usize::from(vacant.0) == self.tables.len() {
            self.tables.push(RouteTable::default());
        }
        self.names.insert(table.clone(), vacant);
        Some(vacant)
    }

    /// An id without a table.
    fn vacant(&self) -> Option<TableId> {
        // Only searched if a table was removed: thousands may be added at once.
        if self.names.len() == self.tables.len() {
            return u16::try_from(self.tables.len()).ok().map(TableId);
        }
        let used: HashSet<TableId> = self.names.values().copied().collect();
        (0..=u16::MAX).map(TableId).find(|id| !used.contains(id))
    }

    /// Links the two tables of each listener that has two; all of them have an id.
    pub(crate) fn put_beside(&mut self, listeners: &OrdMap<Arc<str>, Arc<Listener>>) {
        self.tables.iter_mut().for_each(|table| table.beside = None);
        for listener in listeners.values() {
            let Some(routes) = listener.routes.as_ref().and_then(|routes| self.id(routes)) else { continue };
            self.tables[usize::from(routes.0)].beside = self.id(&listener.table).filter(|own| *own != routes);
        }
    }

    /// Removes tables without hosts and listeners.
    pub(crate) fn forget_unused(&mut self, listeners: &OrdMap<Arc<str>, Arc<Listener>>) {
        let named: HashSet<&str> = listeners.values().flat_map(|listener| listener.tables()).collect();
        let tables = &self.tables;
        self.names.retain(|name, id| named.contains(&**name) || !tables[usize::from(id.0)].is_empty());
    }

    /// Replaces the host at `key` by `host`, or removes it, and returns the previous one. `None` also if the table has
    /// no id.
    pub(crate) fn replace(
        &mut self,
        key: &HostKey,
        host: Option<Arc<CompiledHost>>,
    ) -> Option<Arc<CompiledHost>> {
        let id = self.id(&key.table)?;
        let table = &mut self.tables[usize::from(id.0)];
        match &key.host {
            HostPattern::Any => std::mem::replace(&mut table.any_host, host),
            HostPattern::Exact(name) => match host {
                Some(host) => table.exact.insert(host),
                None => table.exact.remove(name.as_bytes()),
            },
            HostPattern::Wildcard { suffix, span } => {
                let found = table.wildcards.find(suffix.as_bytes());
                let mut wildcards = found.map_or_else(|| Wildcards::none(suffix), |found| (**found).clone());
                let slot = match span {
                    WildcardSpan::OneLabel => &mut wildcards.one_label,
                    WildcardSpan::ManyLabels => &mut wildcards.many_labels,
                };
                let before = std::mem::replace(slot, host);
                match wildcards.one_label.is_none() && wildcards.many_labels.is_none() {
                    true => table.wildcards.remove(suffix.as_bytes()),
                    false => table.wildcards.insert(Arc::new(wildcards)),
                };
                before
            }
        }
    }
}

impl RouteTable {
    /// The hosts that cover `name`, most specific first: the exact name, wildcards with the longest suffix first, the
    /// catch-all.
    #[inline]
    pub(crate) fn covering<'t, 'n>(
        &'t self,
        name: &'n str,
    ) -> impl Iterator<Item = &'t Arc<CompiledHost>> + use<'t, 'n> {
        let dots = match self.wildcards.is_empty() {
            true => "",
            false => name,
        };
        let wild = dots.match_indices('.').filter(|(star, _)| *star > 0).enumerate();
        let wild = wild.filter_map(|(number, (star, _))| {
            let wildcards = self.wildcards.find(&name.as_bytes()[star + 1..])?;
            // For all but the first dot, the wildcard covers several labels.
            let single_label =
                wildcards.one_label.as_ref().filter(|_| number == 0 && !name[..star].contains('.'));
            Some(single_label.into_iter().chain(&wildcards.many_labels))
        });
        self.exact.find(name.as_bytes()).into_iter().chain(wild.flatten()).chain(&self.any_host)
    }

    /// The companion table.
    #[inline]
    pub(crate) fn beside(&self) -> Option<TableId> {
        self.beside
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty() && self.any_host.is_none()
    }
}
