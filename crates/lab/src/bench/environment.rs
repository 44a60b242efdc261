//! Where numbers were made: printed with every table.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The machine, the disk, the build and the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// (what, value), in the order of printing.
    pub facts: Vec<(&'static str, String)>,
}

impl Environment {
    /// Reads what can be known; what cannot is said to be unknown.
    #[must_use]
    pub fn of(dir: &Path) -> Environment {
        let facts = vec![
            ("cpu", cpu()),
            ("memory", memory()),
            ("kernel", first_line("/proc/sys/kernel/osrelease")),
            ("file system", file_system(dir)),
            ("fsync", "on: fdatasync before every acknowledgement".to_owned()),
            ("commit", commit()),
            ("build", build()),
            ("load before", first_line("/proc/loadavg")),
            ("command", std::env::args().collect::<Vec<_>>().join(" ")),
        ];
        Environment { facts }
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).ok();
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(unknown)
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = text.lines().filter(|line| line.starts_with("model name"));
    let names: Vec<_> = names.filter_map(|line| line.split(": ").nth(1)).collect();
    match names.first() {
        Some(name) => format!("{name}, {} logical", names.len()),
        None => unknown(),
    }
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.map_or_else(unknown, |total| total.trim().to_owned())
}

/// Type, options and device of the mount that holds a directory.
fn file_system(dir: &Path) -> String {
    let Ok(dir) = fs::canonicalize(dir) else { return unknown() };
    let text = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounts = text.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, mount) = (fields.next()?, fields.next()?);
        let (kind, options) = (fields.next()?, fields.next()?);
        dir.starts_with(mount).then(|| (mount.len(), format!("{kind} on {device} ({options})")))
    });
    mounts.max_by_key(|(length, _)| *length).map_or_else(unknown, |(_, text)| text)
}

fn commit() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(unknown, |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn build() -> String {
    if cfg!(debug_assertions) { "with debug assertions" } else { "optimised" }.to_owned()
}
