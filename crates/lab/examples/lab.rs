//! The lab without the command line of the product: `lab sim SEED CRASHES`,
//! `lab mutants SEED CRASHES [SITE]`, `lab bench NAME DIR ROUNDS DIVISOR [json]`.

use std::io::{self, Write};
use std::process::ExitCode;

use anabranch_lab::{bench, sim};

fn main() -> io::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    let mut out = io::stdout();
    match args.as_slice() {
        ["sim", seed, crashes, ignore @ ..] => {
            let ignore = ignore.iter().map(|site| (*site).to_owned()).collect();
            let options = sim::Options { seed: number(seed)?, crashes: number(crashes)?, ignore };
            let report = sim::run(&options);
            write!(out, "{report}")?;
            Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ["mutants", seed, crashes, only @ ..] => {
            let (seed, crashes) = (number(seed)?, number(crashes)?);
            for sites in sim::mutants::list(seed, crashes) {
                let wanted = |only: &&str| sites.iter().any(|site| site.contains(only));
                if only.iter().all(wanted) {
                    writeln!(out, "{}", sim::mutants::run_one(sites, seed, crashes))?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        ["bench", name, dir, rounds, divisor, json @ ..] => {
            let options = bench::Options {
                dir: dir.into(),
                rounds: number(rounds)?.try_into().map_err(io::Error::other)?,
                divisor: number(divisor)?,
            };
            let report = bench::run(name, &options).map_err(io::Error::other)?;
            if json.is_empty() {
                write!(out, "{report}")?;
            } else {
                writeln!(out, "{}", report.to_json())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            writeln!(io::stderr(), "usage: see the beginning of examples/lab.rs")?;
            Ok(ExitCode::from(2))
        }
    }
}
