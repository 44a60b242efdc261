//! What `cargo xtask full` adds to `test`: the runs that are too long for every change.
//!
//! A new long run is a row here.

use crate::stage::{Run, Stage, Tool};

/// In this order, after the stages of `test`.
pub(crate) const STAGES: &[Stage] = &[
    // The optimiser's build is what people run: other inlining, other timing, no overflow checks.
    Stage {
        name: "release tests",
        needs: None,
        instead: None,
        run: Run::Cargo {
            arguments: &[
                "test",
                "--workspace",
                "--locked",
                "--no-fail-fast",
                "--release",
                "--all-targets",
                "--",
                "--include-ignored",
            ],
            env: &[],
        },
    },
    Stage {
        name: "documentation",
        needs: None,
        instead: None,
        run: Run::Cargo {
            arguments: &[
                "doc",
                "--workspace",
                "--locked",
                "--no-deps",
                "--document-private-items",
                "--quiet",
            ],
            env: &[("RUSTDOCFLAGS", "-D warnings")],
        },
    },
    // Advisories need a clone of their database; `cargo deny check advisories` where there is one.
    Stage {
        name: "licences and bans",
        needs: Some(Tool {
            probe: &["deny", "--version"],
            get: "cargo install cargo-deny --locked",
        }),
        instead: None,
        run: Run::Cargo { arguments: &["deny", "check", "licenses", "bans", "sources"], env: &[] },
    },
];
