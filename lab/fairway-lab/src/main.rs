//! `fairway-lab`: the command. Reads arguments and hands over to the part that owns the order; holds no logic.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    fairway_lab::command::run()
}
