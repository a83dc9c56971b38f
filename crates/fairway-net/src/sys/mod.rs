//! System interfaces without a safe crate. The only unsafe code of the data plane.

#![allow(unsafe_code, reason = "each use says why it is sound; everything else of the workspace has none")]

mod huge_pages;
mod passed;
mod peer;
mod tcp_info;
mod timestamps;

pub use huge_pages::refuse_huge_pages;
pub(crate) use passed::take_passed;
pub(crate) use peer::{PeerProcess, peer_process};
pub(crate) use tcp_info::owes_acknowledgement;
pub use timestamps::refuse_timestamps;
