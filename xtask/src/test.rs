//! What `cargo xtask test` runs: all that a change must pass, with nothing but the Rust toolchain.

use crate::stage::{Run, Stage, Tool};
use crate::tidy;

/// In this order; a failed stage does not stop the later ones, so that one run tells everything.
pub(crate) const STAGES: &[Stage] = &[
    Stage {
        name: "format",
        needs: Some(Tool { probe: &["fmt", "--version"], get: "rustup component add rustfmt" }),
        instead: None,
        run: Run::Cargo { arguments: &["fmt", "--all", "--check"], env: &[] },
    },
    Stage { name: "tidy", needs: None, instead: None, run: Run::Inside(tidy::run) },
    Stage {
        name: "clippy",
        needs: Some(Tool { probe: &["clippy", "--version"], get: "rustup component add clippy" }),
        instead: None,
        run: Run::Cargo {
            arguments: &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ],
            env: &[],
        },
    },
    Stage {
        name: "tests",
        needs: Some(Tool {
            probe: &["nextest", "--version"],
            get: "cargo install cargo-nextest --locked",
        }),
        // The same tests, one process per binary instead of one per test.
        instead: Some(Run::Cargo {
            arguments: &["test", "--workspace", "--locked", "--no-fail-fast", "--all-targets"],
            env: &[],
        }),
        run: Run::Cargo {
            arguments: &["nextest", "run", "--workspace", "--locked", "--no-fail-fast"],
            env: &[],
        },
    },
    Stage {
        name: "doc tests",
        needs: None,
        instead: None,
        run: Run::Cargo {
            arguments: &["test", "--workspace", "--locked", "--no-fail-fast", "--doc"],
            env: &[],
        },
    },
];
