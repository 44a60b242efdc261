//! `completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Context;
use crate::args::{self, Cli, Completions};
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn run(context: &Context, args: &Completions) -> Outcome {
    let shell = match args.shell {
        args::Shell::Bash => Shell::Bash,
        args::Shell::Zsh => Shell::Zsh,
        args::Shell::Fish => Shell::Fish,
    };
    // The generator panics when it cannot write: into memory it always can.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "anabranch", &mut script);
    context.printer.bytes(&script, false)?;
    Ok(Exit::Done)
}
