//! Freed memory that the allocator holds back.

/// How much of it is returned to the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// What has been free for a while (mimalloc: a second).
    Rested,
    /// All of it that this thread, or no thread, holds.
    All,
}

/// Returns freed memory to the system. Does nothing where mimalloc is not the allocator of the process.
pub fn return_memory(how_much: Return) {
    // SAFETY: `mi_collect` may be called at any time from any thread; it frees no block that is in use.
    unsafe { libmimalloc_sys::mi_collect(how_much == Return::All) }
}
