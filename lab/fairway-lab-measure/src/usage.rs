//! What one container or process has used since it began. Never reads it.

/// What one subject has used since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    pub(crate) user_ns: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) switches: u64,
}
