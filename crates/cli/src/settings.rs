//! What the command line and the environment resolve to.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_api::DEFAULT_ADDR;

use crate::args::{Color, Global};

/// Where the space is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A node that serves it.
    Addr(String),
    /// A directory that this process opens itself.
    Dir(PathBuf),
}

/// Settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) place: Place,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// 0: warnings; 1: what the node does; 2: every request.
    pub(crate) verbose: u8,
    /// Colour on stdout and on stderr.
    pub(crate) color: (bool, bool),
    pub(crate) actor: String,
    pub(crate) intent: String,
    pub(crate) timeout: Duration,
}

impl Settings {
    /// Resolves the options that every command has.
    pub(crate) fn resolve(global: &Global) -> Settings {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let place = match (&global.dir, &global.addr) {
            (Some(dir), _) => Place::Dir(dir.clone()),
            (None, Some(addr)) => Place::Addr(addr.clone()),
            (None, None) => {
                Place::Addr(variable("ANABRANCH_ADDR").unwrap_or_else(|| DEFAULT_ADDR.to_owned()))
            }
        };
        let actor = global.actor.clone().or_else(|| variable("ANABRANCH_ACTOR"));
        let user = || variable("USER").or_else(|| variable("USERNAME"));
        let wanted = |terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && variable("NO_COLOR").is_none(),
        };
        Settings {
            place,
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color: (
                wanted(std::io::stdout().is_terminal()),
                wanted(std::io::stderr().is_terminal()),
            ),
            actor: actor.or_else(user).unwrap_or_else(|| "cli".to_owned()),
            intent: global.intent.clone().unwrap_or_default(),
            timeout: global.timeout,
        }
    }
}
