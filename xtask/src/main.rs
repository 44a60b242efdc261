//! The repository's own tool: `cargo xtask tidy | test | full | gen`.
//!
//! `tidy` checks the rules of CONTRIBUTING.md that a compiler does not know, without building
//! anything. `test` is what a change must pass and needs only the Rust toolchain. `full` adds the
//! long runs. It has one dependency, so that it builds in seconds.

mod full;
mod generate;
mod stage;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy   check crate edges, dependencies, sizes, names and printing (no build)
  test   everything a change must pass: format, tidy, clippy, tests, doc tests
  full   test, then the long runs
  gen    write the documents that are made from the code
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let passed = match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["test"] => stage::run(&root, test::STAGES),
        ["gen"] => generate::run(&root),
        ["full"] => stage::run(&root, &[test::STAGES, full::STAGES].concat()),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            true
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The workspace's directory: the parent of this crate's.
fn root() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}
