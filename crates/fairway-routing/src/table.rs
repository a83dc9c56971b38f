//! Ids of route tables.

/// The id of a route table: stable across snapshots while a host or listener names the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);
