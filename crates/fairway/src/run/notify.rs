//! Reports the state of the process to systemd (sd_notify(3)): a unit with `Type=notify` counts as started once traffic is served.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::{env, io, process};

/// Reports that traffic is served. If the process has `replaced` another one, it becomes the main process of the unit.
pub(super) fn ready(replaced: bool) {
    match replaced {
        true => send_state(&format!("READY=1\nMAINPID={}\n", process::id())),
        false => send_state("READY=1\n"),
    }
}

/// Reports that the process is stopping.
pub(super) fn stopping() {
    send_state("STOPPING=1\n");
}

fn send_state(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let send = || -> io::Result<usize> {
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)
    };
    if let Err(error) = send() {
        tracing::warn!(%error, "cannot report the state of the process to systemd (NOTIFY_SOCKET)");
    }
}
