//! The report as readers meet it: in a real browser, as a file, and in README. Results are synthetic ([`fixture`]).

#![cfg(feature = "laboratory")]

mod browser;
mod file;
mod fixture;
mod reading;
mod readme;
