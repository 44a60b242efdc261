//! The `anabranch` command.

fn main() {}
