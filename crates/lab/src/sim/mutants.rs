//! Takes away one kind of sync at a time, to see that the crash test notices.
//!
//! The kinds are those that an undisturbed run of the same seeds meets, so a sync that is added
//! to the store is covered without a change here. Two kinds of exceptions, each with its reason:
//! [`GROUPS`] back each other, so that only taking all of them away does harm; [`HARMLESS`] ones
//! only spare the next opening some work.

use std::fmt;

use super::{Options, run};

/// Syncs that back each other: any one may go, not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Beginnings of the names of the kinds.
    pub sites: &'static [&'static str],
    /// Why one alone is not missed.
    pub why: &'static str,
}

/// See [`Group`].
pub const GROUPS: &[Group] = &[
    Group {
        sites: &[
            "opening: directory ., after renaming to identity.",
            "opening: directory ., after renaming to vote.",
        ],
        why: "a later sync of the same directory makes the earlier names durable, and nothing is \
              acknowledged before the last of them",
    },
    Group {
        sites: &["opening: file identity.a.tmp", "opening: file identity.b.tmp"],
        why: "two copies: one intact one is enough",
    },
    Group {
        sites: &["opening: file vote.a.tmp", "opening: file vote.b.tmp"],
        why: "two copies: one intact one is enough",
    },
    Group {
        sites: &["opening: file vote.a, bytes", "opening: file vote.b, bytes"],
        why: "two copies, written one after the other: one intact one is enough",
    },
    Group {
        sites: &[
            "running: directory ., after renaming to checkpoint-",
            "running: directory ., after removing checkpoint-",
        ],
        why: "a later sync of the same directory makes the earlier names durable, and nothing \
              that the older checkpoint needs is dropped before the last of them",
    },
    Group {
        sites: &["running: file checkpoint-*.a.tmp", "running: file checkpoint-*.b.tmp"],
        why: "two copies: one intact one is enough",
    },
    Group {
        sites: &[
            "opening: directory journal, nothing new",
            "opening: directory journal, after removing journal/*.seg.tmp",
        ],
        why: "one call, under two names: it depends on whether a segment was left unfinished",
    },
];

/// Kinds that may go without harm to what was acknowledged: beginnings of names, and why.
pub const HARMLESS: &[(&str, &str)] = &[
    (
        "opening: directory chunks, after removing",
        "every opening removes again what the checkpoint does not name",
    ),
    (
        "opening: directory history, after removing",
        "every opening removes again what the checkpoint does not name",
    ),
    ("opening: file chunks/*.pack", "every opening cuts again what the checkpoint does not cover"),
    ("opening: file history/*.seg", "every opening cuts again what the checkpoint does not cover"),
    (
        "opening: directory ., after renaming to checkpoint-",
        "repairs a copy while the other one is durable; the next opening would repair it again",
    ),
    (
        "opening: file vote.a, nothing new",
        "what a killed process left in the cache is written again, and synced, before anything \
         depends on it: every opening campaigns; with several voters it will matter",
    ),
    (
        "opening: file vote.b, nothing new",
        "what a killed process left in the cache is written again, and synced, before anything \
         depends on it: every opening campaigns; with several voters it will matter",
    ),
    (
        "opening: file checkpoint-",
        "repairs a copy while the other one is durable; the next opening would repair it again",
    ),
];

/// What became of one mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The kinds of sync that did nothing.
    pub sites: Vec<String>,
    /// Crashes until it was noticed, and what was noticed; `None` if it was not.
    pub caught: Option<(u64, String)>,
    /// Why it need not be noticed, if it need not.
    pub harmless: Option<&'static str>,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sites = self.sites.join("\n      + ");
        match (&self.caught, self.harmless) {
            (Some((crashes, what)), _) => {
                let what: String = what.chars().take(120).collect();
                write!(f, "caught after {crashes:>4} crashes: {sites}\n        {what}")
            }
            (None, Some(why)) => write!(f, "harmless: {sites}\n        {why}"),
            (None, None) => write!(f, "NOT CAUGHT: {sites}"),
        }
    }
}

/// Every mutant of a run: each kind alone, but groups together.
#[must_use]
pub fn list(seed: u64, crashes: u64) -> Vec<Vec<String>> {
    let plain = run(&Options { seed, crashes, ignore: Vec::new() });
    let mut grouped: Vec<Vec<String>> = vec![Vec::new(); GROUPS.len()];
    let mut alone = Vec::new();
    for site in plain.sites.into_keys() {
        let begins = |begin: &&str| site.starts_with(begin);
        match GROUPS.iter().position(|group| group.sites.iter().any(begins)) {
            Some(group) => grouped[group].push(site),
            None => alone.push(vec![site]),
        }
    }
    alone.extend(grouped.into_iter().filter(|group| !group.is_empty()));
    alone
}

/// Runs one mutant for at most `crashes` crashes (and to the end of the last world).
#[must_use]
pub fn run_one(sites: Vec<String>, seed: u64, crashes: u64) -> Mutant {
    let report = run(&Options { seed, crashes, ignore: sites.clone() });
    let met = report.counts.crashes();
    let excused =
        HARMLESS.iter().find(|(begin, _)| sites.iter().all(|site| site.starts_with(begin)));
    Mutant {
        sites,
        caught: report.violation.map(|violation| (met, violation.what)),
        harmless: excused.map(|(_, why)| *why),
    }
}
