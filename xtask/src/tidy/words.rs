//! Words that may stand only in certain files: printing, ending the process, `unsafe`, and
//! whatever makes the simulator differ from run to run.

use super::Finding;
use super::source::SourceFile;

struct Ban {
    /// Found as whole words in production code, outside comments and literals.
    words: &'static [&'static str],
    /// Path prefixes within which the ban holds.
    within: &'static [&'static str],
    /// Path prefixes where the words may stand.
    except: &'static [&'static str],
    what: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        words: &["println!", "print!", "eprintln!", "eprint!"],
        within: &["crates/"],
        except: &["crates/cli/src/printer.rs", "crates/cli/build.rs"],
        what: "prints; only crates/cli/src/printer.rs does, so that stdout stays data",
    },
    Ban {
        words: &["process::exit"],
        within: &["crates/", "xtask/"],
        except: &[],
        what: "ends the process without unwinding; return an ExitCode from main",
    },
    Ban {
        words: &["unsafe"],
        within: &["crates/", "xtask/"],
        except: &["crates/sql/src/"],
        what: "`unsafe` stands only in the sql crate",
    },
    Ban {
        words: &[
            "HashMap",
            "HashSet",
            "RandomState",
            "Instant",
            "SystemTime",
            "std::fs",
            "std::net",
            "std::thread",
            "thread::spawn",
            "thread::sleep",
            "Condvar",
        ],
        within: &["crates/lab/src/sim/", "crates/lab/src/sim.rs"],
        except: &[],
        what: "differs from run to run; the simulator follows lint/pure.toml",
    },
];

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let starts = |prefix: &&str| source.path.starts_with(*prefix);
        let bans = BANS.iter().filter(|ban| ban.within.iter().any(starts));
        for ban in bans.filter(|ban| !ban.except.iter().any(starts)) {
            findings.extend(check_ban(source, ban));
        }
    }
    findings
}

fn check_ban(source: &SourceFile, ban: &Ban) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line_number, line) in source.production_lines() {
        for word in ban.words.iter().filter(|word| contains_word(line, word)) {
            let place = format!("{}:{line_number}", source.path);
            findings.push(Finding::failure(place, format!("`{word}`: {}", ban.what)));
        }
    }
    findings
}

/// Is `word` in `line`, not as part of a longer identifier?
pub(crate) fn contains_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part) && (word.ends_with('!') || !after.is_some_and(part))
    })
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        check(&[example(path, text)]).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn printing_outside_the_printer_fails() {
        let text = "//! X.\nfn a() {\n    println!();\n    eprint!();\n    // println!()\n}\n";
        let expected = ["crates/node/src/a.rs:3", "crates/node/src/a.rs:4"];
        assert_eq!(places("crates/node/src/a.rs", text), expected);
        assert!(places("crates/cli/src/printer.rs", text).is_empty());
        assert!(places("xtask/src/main.rs", text).is_empty());
    }

    #[test]
    fn printing_in_a_test_passes() {
        let text = "#[cfg(test)]\nmod tests {\n    fn a() { println!(); }\n}\n";
        assert!(places("crates/node/src/a.rs", text).is_empty());
        assert!(places("crates/node/tests/it/main.rs", "fn a() { println!(); }").is_empty());
    }

    #[test]
    fn ending_the_process_fails_everywhere() {
        let text = "fn a() { std::process::exit(1) }\n";
        for path in ["crates/cli/src/main.rs", "xtask/src/main.rs", "crates/sql/src/a.rs"] {
            assert_eq!(places(path, text).len(), 1, "{path}");
        }
        assert!(places("crates/cli/src/main.rs", "use std::process::ExitCode;\n").is_empty());
    }

    #[test]
    fn unsafe_code_outside_sql_fails() {
        let text = "fn a() { unsafe { b() } }\n";
        assert_eq!(places("crates/store/src/a.rs", text).len(), 1);
        assert!(places("crates/sql/src/vfs/ffi.rs", text).is_empty());
        assert!(places("crates/store/src/a.rs", "#![forbid(unsafe_code)]\n").is_empty());
    }

    #[test]
    fn chance_in_the_simulator_fails() {
        let text = "use std::collections::HashMap;\nlet now = Instant::now();\n";
        assert_eq!(places("crates/lab/src/sim/clock.rs", text).len(), 2);
        assert!(places("crates/lab/src/bench/load.rs", text).is_empty());
    }

    #[test]
    fn words_are_whole() {
        assert!(contains_word("a print!(x)", "print!"));
        assert!(!contains_word("eprint!(x)", "print!"));
        assert!(!contains_word("InstantLike", "Instant"));
        assert!(contains_word("time::Instant;", "Instant"));
    }
}
