//! The global allocator and how it returns freed memory to the system. Only the binary chooses an allocator.

#![allow(unsafe_code, reason = "mimalloc has no safe call that returns memory")]

use fairway_proxy::ReturnScope;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns freed memory to the system.
pub(crate) fn return_memory(freed: ReturnScope) {
    // SAFETY: `mi_collect` may be called at any time from any thread; it frees no block that is in use.
    unsafe { libmimalloc_sys::mi_collect(freed == ReturnScope::All) }
}
