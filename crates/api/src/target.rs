//! Where a command goes: `space@branch`, `@branch` or `branch`.

use std::fmt;
use std::str::FromStr;

use anabranch_log::BranchName;

/// A branch, and the space that it must be in if one was written.
///
/// ```
/// use anabranch_api::Target;
///
/// let target: Target = "shop@agent-7".parse().unwrap();
/// assert_eq!((target.space.as_deref(), target.branch.as_str()), (Some("shop"), "agent-7"));
/// assert_eq!("agent-7".parse::<Target>().unwrap().to_string(), "agent-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the space; `None` is whichever the address serves.
    pub space: Option<String>,
    /// Name of the branch.
    pub branch: String,
}

impl Default for Target {
    fn default() -> Target {
        Target { space: None, branch: BranchName::main().as_str().to_owned() }
    }
}

/// A text that names no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTarget {
    text: String,
}

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no target: write `branch`, `@branch` or `space@branch`, each name of letters, \
             digits and `. _ - / :`",
            self.text.escape_debug()
        )
    }
}

impl std::error::Error for BadTarget {}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Target, BadTarget> {
        let bad = || BadTarget { text: text.to_owned() };
        let (space, branch) = text.split_once('@').unwrap_or(("", text));
        // A space's name follows the rules of a branch's.
        for name in [space, branch].into_iter().filter(|name| !name.is_empty()) {
            BranchName::new(name).map_err(|_| bad())?;
        }
        if branch.is_empty() {
            return Err(bad());
        }
        let space = (!space.is_empty()).then(|| space.to_owned());
        Ok(Target { space, branch: branch.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(space) = &self.space {
            write!(f, "{space}@")?;
        }
        f.write_str(&self.branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let target = |space: Option<&str>, branch: &str| Target {
            space: space.map(str::to_owned),
            branch: branch.to_owned(),
        };
        for (text, expected) in [
            ("main", target(None, "main")),
            ("@agent-7", target(None, "agent-7")),
            ("shop@agent-7", target(Some("shop"), "agent-7")),
            ("shop@team/a:1", target(Some("shop"), "team/a:1")),
        ] {
            assert_eq!(text.parse::<Target>().unwrap(), expected, "{text}");
            assert_eq!(expected.to_string().parse::<Target>().unwrap(), expected);
        }
        for bad in ["", "@", "shop@", "a@b@c", "a b", "-x", "sh op@x", "é"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
