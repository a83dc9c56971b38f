//! backend

pub mod command;
