//! How much memory the process may use, as its operator says it.

/// How much memory may be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBudget {
    /// Any.
    Unlimited,
    /// 85% of the limit of its cgroup, where that has one.
    Cgroup,
    /// So many bytes of this process, the buffers of its sockets included. The cgroup's limit holds too: these bytes are
    /// then its budget, within 85% and 95% of it.
    Bytes(u64),
}
