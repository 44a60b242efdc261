//! `demo`: options in, text or JSON out; the story itself is [`crate::demo`].

use anabranch_api::Problem;
use anabranch_log::{Happened, Kind};

use super::Context;
use crate::args::Demo;
use crate::demo::{self, DemoError, DemoOptions, Quiet, TextOutput};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::settings::Place;

pub(crate) fn run(context: &Context, args: &Demo) -> Outcome {
    let directory = match &context.settings.place {
        Place::Dir(dir) => Some(dir.clone()),
        Place::Addr(_) => None,
    };
    let options =
        DemoOptions { directory, days: args.days, rate: args.rate, ..DemoOptions::default() };
    let printer = &context.printer;
    if printer.is_json() {
        let story = demo::run(&options, &mut Quiet).map_err(failure)?;
        printer.json(&story)?;
        return Ok(Exit::Done);
    }
    let (color, bars) = printer.looks();
    let mut output = TextOutput::new(printer.writer(), color, bars);
    demo::run(&options, &mut output).map_err(failure)?;
    Ok(Exit::Done)
}

fn failure(error: DemoError) -> Failure {
    let hint = error.hint();
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(source) = cause {
        message = format!("{message}: {source}");
        cause = source.source();
    }
    let (kind, happened) = match error {
        DemoError::Output(error) => return Failure::from(error),
        DemoError::DirectoryInUse(_) | DemoError::Options(_) => {
            (Kind::InvalidArgument, Happened::No)
        }
        DemoError::Space { source, .. } => (source.kind, source.happened),
        DemoError::Directory(..) | DemoError::Thread(_) => (Kind::Unavailable, Happened::No),
        DemoError::Expectation { .. } | DemoError::Panicked(_) | DemoError::Extract(_) => {
            (Kind::Internal, Happened::No)
        }
    };
    Failure::Problem(Box::new(Problem::new(kind, happened, message).with_hint(hint)))
}
