//! `cargo xtask gen`: writes the documents that are made from the code.
//!
//! `tidy` fails while one of them differs from what this would write.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Where the kinds of error are declared, and the document made from them.
const KINDS: &str = "crates/log/src/outcome.rs";
pub(crate) const ERRORS: &str = "docs/errors.md";

/// Writes every generated document and returns whether that worked.
pub(crate) fn run(root: &Path) -> bool {
    let written = errors(root).and_then(|text| {
        fs::write(root.join(ERRORS), text).map_err(|error| format!("{ERRORS}: {error}"))
    });
    match written {
        Ok(()) => {
            println!("wrote {ERRORS}");
            true
        }
        Err(what) => {
            eprintln!("error: {what}");
            false
        }
    }
}

/// What docs/errors.md should hold.
pub(crate) fn errors(root: &Path) -> Result<String, String> {
    let text = fs::read_to_string(root.join(KINDS)).map_err(|e| format!("{KINDS}: {e}"))?;
    let kinds = kinds(&text)?;
    let mut page = String::from(PREFACE);
    for Kind { code, meaning, hint } in &kinds {
        let _ = writeln!(page, "| `{code}` | {meaning} | {hint} |");
    }
    Ok(page)
}

const PREFACE: &str = "\
# Errors

Made from the code by `cargo xtask gen`; do not edit.

Every refusal carries a **code** from this table, a message, a hint, and **happened**: did the
operation take effect?

| happened | what it means | what to do about a write |
|---|---|---|
| `no` | it did not and never will | correct or repeat it as you like |
| `yes` | it did, but the answer could not be given in full | read the state; do not repeat it |
| `unknown` | it cannot be told, and it may still take effect | repeat it with the same session \
and sequence number only: it then takes effect at most once |

A code says what is wrong, `happened` is said per answer. Codes are stable: a code is never \
reused for something else.

| code | what is wrong | what to do |
|---|---|---|
";

struct Kind {
    code: String,
    meaning: String,
    hint: String,
}

/// Reads the invocation of `kinds!`: `/// MEANING`, then `Name \"code\" \"hint\",` for each kind.
fn kinds(text: &str) -> Result<Vec<Kind>, String> {
    let start = text.find("\nkinds! {").ok_or_else(|| format!("{KINDS}: no `kinds!`"))?;
    let block = &text[start..];
    let block = &block[..block.find("\n}").ok_or_else(|| format!("{KINDS}: no end"))?];
    let mut kinds = Vec::new();
    let (mut meaning, mut declared) = (String::new(), String::new());
    for line in block.lines().skip(2).map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            meaning = format!("{meaning} {}", doc.trim());
            continue;
        }
        declared = format!("{declared} {line}");
        if !line.ends_with(',') {
            continue;
        }
        let parts: Vec<&str> = declared.split('"').collect();
        let [_, code, _, hint, _] = parts.as_slice() else {
            return Err(format!("{KINDS}: not `Name \"code\" \"hint\",`:{declared}"));
        };
        kinds.push(Kind {
            code: (*code).to_owned(),
            meaning: meaning.trim().trim_end_matches('.').to_owned(),
            hint: (*hint).to_owned(),
        });
        (meaning, declared) = (String::new(), String::new());
    }
    if kinds.is_empty() {
        return Err(format!("{KINDS}: `kinds!` declares nothing"));
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_over_line_breaks() {
        let text = "macro_rules! kinds {\n}\n\nkinds! {\n    /// No branch\n    /// here.\n    \
                    A \"a\" \"go, then\",\n    /// Full.\n    B \"b\"\n        \"wait\",\n}\n";
        let found = kinds(text).unwrap();
        let rows: Vec<_> =
            found.iter().map(|kind| [&kind.code, &kind.meaning, &kind.hint]).collect();
        assert_eq!(rows, [["a", "No branch here", "go, then"], ["b", "Full", "wait"]]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        assert!(kinds("nothing").is_err());
        assert!(kinds("\nkinds! {\n}\n").is_err());
        assert!(kinds("\nkinds! {\n    A \"a\",\n}\n").is_err());
    }
}
