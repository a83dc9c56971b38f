//! scenario

pub mod command;
mod definition;

pub use definition::{Definition, Fit, Heading};
