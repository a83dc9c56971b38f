//! The configured memory budget of the process.

/// How much memory may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBudget {
    /// No limit.
    Unlimited,
    /// 85% of the limit of its cgroup, if it has one.
    Cgroup,
    /// This many bytes of this process, including its socket buffers. The cgroup's limit applies too: this value is
    /// then its budget, within 85% and 95% of it.
    Bytes(u64),
}
