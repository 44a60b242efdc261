//! The repository checks its own style.

fn main() {}
