//! Defaults and limits for buffered bodies, for objects of any kind. By default, memory and disk of responses and memory of
//! requests are as in ingress-nginx.

/// The maximum memory for a body.
pub const MAX_MEMORY: u64 = 1 << 20;
/// ingress-nginx: `client-body-buffer-size` 8k.
pub const REQUEST_MEMORY: u64 = 8 << 10;
/// The default disk space of a request body if request bodies have no limit.
pub const REQUEST_DISK: u64 = 1 << 30;
/// ingress-nginx: `proxy-buffers-number` 4...
pub const RESPONSE_BUFFERS: u32 = 4;
/// ... of `proxy-buffer-size` 4k.
pub const RESPONSE_BUFFER: u64 = 4 << 10;
/// ingress-nginx: `proxy-max-temp-file-size` 1024m.
pub const RESPONSE_DISK: u64 = 1 << 30;
