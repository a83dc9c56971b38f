//! Names of route tables.

/// The number of a route table: the same from snapshot to snapshot while a host or a listener names the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);
