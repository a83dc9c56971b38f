//! Text that commands read from standard input, with a size limit that protects memory when the wrong thing is piped in.

use std::io::{self, Read};

use anyhow::{Context, Result, bail};

/// Maximum size of standard input. A list of 100,000 Ingresses is about half as large.
const MAX_INPUT_BYTES: u64 = 1 << 30;

/// Reads all of standard input.
///
/// # Errors
/// It cannot be read, is too large, or is not UTF-8.
pub(crate) fn text() -> Result<String> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes);
    read.context("cannot read standard input")?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        bail!("standard input is larger than {} MiB", MAX_INPUT_BYTES >> 20);
    }
    String::from_utf8(bytes).context("standard input is not UTF-8 text")
}
