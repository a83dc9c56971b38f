//! How the allocator gives memory back.
//!
//! mimalloc keeps freed pages for a second before it returns them to the system. A process above its memory budget would
//! refuse requests for that long after the load is gone. The delay can only be set by the environment that the process
//! begins with, so the process begins again, once.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Milliseconds that freed pages wait.
const DELAY: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "100");

/// Begins this process again with the delay, unless the environment names one. Its id, its arguments and what it has
/// open stay. Called before the process has another thread.
pub(crate) fn return_memory_soon() {
    let (name, value) = DELAY;
    if env::var_os(name).is_some() {
        return;
    }
    let (Ok(program), mut arguments) = (env::current_exe(), env::args_os()) else { return };
    let mut again = Command::new(program);
    if let Some(own_name) = arguments.next() {
        again.arg0(own_name);
    }
    // It returns only when that is not possible; memory then comes back more slowly.
    let _ = again.args(arguments).env(name, value).exec();
}
