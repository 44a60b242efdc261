//! Running and examining a node.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Run a node to try things out: makes the space if there is none
///
/// The space is in ./anabranch-data unless --dir names another directory. Ctrl-C ends it; what was
/// acknowledged is still there the next time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch dev
  anabranch dev --dir /tmp/trial --listen 127.0.0.1:0 --json")]
pub(crate) struct Dev {
    /// Loopback address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = anabranch_api::DEFAULT_ADDR)]
    pub(crate) listen: SocketAddr,
    /// Name of the space, when it is made
    #[arg(long, value_name = "NAME")]
    pub(crate) space: Option<String>,
}

/// Serve an existing space (--dir) until interrupted
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch serve --dir /var/lib/anabranch/shop
  anabranch serve --dir shop --create --space shop --listen '[::1]:7420'")]
pub(crate) struct Serve {
    /// Loopback address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = anabranch_api::DEFAULT_ADDR)]
    pub(crate) listen: SocketAddr,
    /// Make the space if there is none
    #[arg(long)]
    pub(crate) create: bool,
    /// Name that the space must have, or gets when it is made
    #[arg(long, value_name = "NAME")]
    pub(crate) space: Option<String>,
    /// Give up a damaged, unconfirmed record at the end of the journal instead of refusing to start
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

/// Tell the whole story in a minute, on real data, in a space of its own
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch demo
  anabranch demo --days 31 --dir /tmp/flights")]
pub(crate) struct Demo {
    /// How much of the year 2013 is used
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    pub(crate) days: u32,
    /// Departures that arrive while the agents work, per second
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    pub(crate) rate: u32,
}

/// Show the state of the node
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch status
  anabranch status --json | jq .index")]
pub(crate) struct Status {}

/// Take a checkpoint now
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch checkpoint")]
pub(crate) struct Checkpoint {}

/// Check every byte of a stopped node's directory
///
/// Says what is wrong and where; exit code 1 if anything is. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch verify ./anabranch-data
  anabranch verify ./anabranch-data --json")]
pub(crate) struct Verify {
    /// Directory of the space
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// List the structures in the files of a stopped node
///
/// Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch inspect ./anabranch-data
  anabranch inspect ./anabranch-data --file journal/ --items")]
pub(crate) struct Inspect {
    /// Directory of the space
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Only files whose path begins with this
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) file: String,
    /// List every structure, not only the files
    #[arg(long)]
    pub(crate) items: bool,
}

/// Shells that completions exist for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch completions bash > ~/.local/share/bash-completion/completions/anabranch
  anabranch completions zsh > ~/.zfunc/_anabranch
  anabranch completions fish > ~/.config/fish/completions/anabranch.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Print the version
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch version --json")]
pub(crate) struct Version {}
