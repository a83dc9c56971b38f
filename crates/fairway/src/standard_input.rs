//! Text that commands read from the standard input. Bounded: whatever is piped in, by mistake too, does not eat the memory.

use std::io::{self, Read};

use anyhow::{Context, Result, bail};

/// A list of 100,000 Ingresses has about half of it.
const LARGEST: u64 = 1 << 30;

/// All of it.
///
/// # Errors
/// It cannot be read, is too large, or is no text.
pub(crate) fn text() -> Result<String> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes);
    read.context("cannot read the standard input")?;
    if bytes.len() as u64 > LARGEST {
        bail!("the standard input is larger than {} MiB", LARGEST >> 20);
    }
    String::from_utf8(bytes).context("the standard input is no UTF-8 text")
}
