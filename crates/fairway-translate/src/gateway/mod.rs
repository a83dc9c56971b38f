//! The Gateway API: so far which kinds it has and what each of them becomes. None of them is served yet.

pub mod kinds;
