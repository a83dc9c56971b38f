//! How objects ask for bodies that are held, whatever their kind: defaults and bounds. Memory and disk of responses, and memory of
//! requests, are as in ingress-nginx where nothing is said.

/// The most memory that a body is given.
pub const MAX_MEMORY: u64 = 1 << 20;
/// ingress-nginx: `client-body-buffer-size` 8k.
pub const REQUEST_MEMORY: u64 = 8 << 10;
/// Where request bodies have no limit, what one may have on disk.
pub const REQUEST_DISK: u64 = 1 << 30;
/// ingress-nginx: `proxy-buffers-number` 4...
pub const RESPONSE_BUFFERS: u32 = 4;
/// ... of `proxy-buffer-size` 4k.
pub const RESPONSE_BUFFER: u64 = 4 << 10;
/// ingress-nginx: `proxy-max-temp-file-size` 1024m.
pub const RESPONSE_DISK: u64 = 1 << 30;
