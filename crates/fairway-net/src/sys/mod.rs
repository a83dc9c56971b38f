//! What only the system knows and no safe crate tells. The only folder of the workspace that may be unsafe.

#![allow(unsafe_code, reason = "each use says why it is sound; everything else of the workspace has none")]

mod allocator;
mod tcp_info;

pub use allocator::{Return, refuse_huge_pages, return_memory};
pub(crate) use tcp_info::owes_acknowledgement;
