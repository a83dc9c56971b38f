//! The allocator of the process, and how freed memory is returned to the system. Libraries choose no allocator.

#![allow(unsafe_code, reason = "mimalloc has no safe call that returns memory")]

use fairway_proxy::Freed;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns freed memory to the system.
pub(crate) fn return_memory(freed: Freed) {
    // SAFETY: `mi_collect` may be called at any time from any thread; it frees no block that is in use.
    unsafe { libmimalloc_sys::mi_collect(freed == Freed::All) }
}
