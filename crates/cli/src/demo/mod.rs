//! `anabranch demo`: the whole story in a minute, on real data, in a space of its own.
//!
//! Loads the flights that left New York in 2013 through a fork and past checks, keeps departures
//! arriving on main, lets three agents work on forks at the same time (one lands, one clashes,
//! one is refused), and shows what every branch then sees. Nothing shown is scripted: each number
//! is read back from the space or measured, and each promise is an expectation that ends the demo
//! with an error if it does not hold.
//!
//! The module knows nothing of the command line: it takes options and an output and returns a
//! [`Story`]. It uses the embedded API, so that one process is enough.

mod actor;
mod afterwards;
mod agents;
mod arrivals;
mod data;
mod error;
mod load;
mod output;
mod render;
mod schema;
mod story;
mod time;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anabranch_node::{Options, Space};

pub(crate) use error::DemoError;
pub(crate) use output::{DemoOutput, Quiet, TextOutput};
pub(crate) use story::Story;

use actor::Actor;
use arrivals::Arriving;
use error::Doing;
use story::ForkTimes;

/// Name of the directory, unless another is given or it is taken.
const DIRECTORY: &str = "anabranch-demo";
/// Names tried if it is.
const DIRECTORIES: u32 = 1_000;
/// Forks made only to be measured.
const PROBES: usize = 100;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DemoOptions {
    /// Where the space goes: a directory that does not exist, or an empty one. `None` makes
    /// `./anabranch-demo`, or the first of `./anabranch-demo-2`, … that is free.
    pub directory: Option<PathBuf>,
    /// How much of the year is used, in days from 1 January: 2 to 365 (inclusive).
    pub days: u32,
    /// Departures that arrive on main in the background, per second: 1 to 10 000 (inclusive).
    pub rate: u32,
    /// How the user calls this program: the commands to try next begin with it.
    pub program: String,
}

impl Default for DemoOptions {
    fn default() -> Self {
        DemoOptions {
            directory: None,
            days: time::Day::COUNT,
            rate: 200,
            program: "anabranch".to_owned(),
        }
    }
}

/// Runs the demo; tells it to `out` as it goes, and returns all of it. The directory stays.
///
/// # Errors
/// The first promise that did not hold, or the first step that failed. What the demo made until
/// then is left in its directory.
pub(crate) fn run(options: &DemoOptions, out: &mut dyn DemoOutput) -> Result<Story, DemoError> {
    if !(2..=time::Day::COUNT).contains(&options.days) {
        return Err(DemoError::Options("days must be 2 to 365"));
    }
    if !(1..=10_000).contains(&options.rate) {
        return Err(DemoError::Options("rate must be 1 to 10000 a second"));
    }
    let directory = make_directory(options.directory.as_deref())?;
    tell(options, &directory, out)
}

fn tell(
    options: &DemoOptions,
    directory: &Path,
    out: &mut dyn DemoOutput,
) -> Result<Story, DemoError> {
    let started = Instant::now();
    let open = Options { name: Some("flights".to_owned()), ..Options::default() };
    render::opening(out, directory, options.days)?;
    let space = Space::open(directory, open.clone()).doing("make a space")?;
    let loaded = load::load(&space, options.days, out)?;

    let you = Actor::new(&space, "you", "measure a fork");
    let arriving = Arriving::start(&space, loaded.later, options.rate)?;
    let (ms_p50, ms_max) = arrivals::measure_forks(&you, PROBES)?;
    let forks = ForkTimes { count: PROBES as u64, ms_p50, ms_max };
    render::arriving(out, &loaded.load, options.rate)?;

    let scene = agents::Scene::find(&space, &loaded.later_from.to_string())?;
    let watcher = afterwards::watch(&space, &scene)?;
    let (retime, clash, swap) = agents::run(&scene)?;
    render::agents(out, &retime, &clash, &swap)?;

    let views = afterwards::views(&watcher, &scene, agents::MAIN_GATE)?;
    render::views(out, &views)?;
    arriving.settle();
    let arrivals = arriving.finish(&you)?;
    let branches = afterwards::branches(&space)?;
    let history = afterwards::history(&space)?;
    render::branches(out, &branches)?;
    render::history(out, &history)?;

    // Every handle must go before the directory can be opened again.
    drop((you, scene, watcher));
    let (reopened, space) = afterwards::reopen(space, directory, open)?;
    drop(space);
    let story = Story {
        directory: directory.display().to_string(),
        days: options.days,
        load: loaded.load,
        forks,
        retime,
        clash,
        swap,
        views,
        arrivals,
        branches,
        history,
        reopened,
        directory_bytes: size_bytes(directory)
            .map_err(|error| DemoError::Directory(directory.to_owned(), error))?,
        seconds: started.elapsed().as_secs_f64(),
    };
    render::closing(out, &story, &options.program)?;
    Ok(story)
}

/// Makes the directory, or takes an empty one. Never deletes anything.
fn make_directory(wanted: Option<&Path>) -> Result<PathBuf, DemoError> {
    if let Some(path) = wanted {
        let failed = |error| DemoError::Directory(path.to_owned(), error);
        fs::create_dir_all(path).map_err(failed)?;
        let empty = fs::read_dir(path).map_err(failed)?.next().is_none();
        return if empty {
            Ok(path.to_owned())
        } else {
            Err(DemoError::DirectoryInUse(path.to_owned()))
        };
    }
    let mut path = PathBuf::from(DIRECTORY);
    for number in 2..=DIRECTORIES {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = PathBuf::from(format!("{DIRECTORY}-{number}"));
            }
            Err(error) => return Err(DemoError::Directory(path, error)),
        }
    }
    Err(DemoError::DirectoryInUse(path))
}

/// Bytes of all files below a directory.
fn size_bytes(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() { size_bytes(&entry.path())? } else { data.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
