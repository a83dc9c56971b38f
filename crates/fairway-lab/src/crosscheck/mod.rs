//! crosscheck

pub mod command;
