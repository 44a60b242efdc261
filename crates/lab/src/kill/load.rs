//! The child's load: five threads, each its own kind of call, until somebody kills it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_node::{Error, ForkKind, ForkRequest, Origin, PromoteOptions, Space, SqlOptions};

use super::space_options;

/// Kinds of call; the first word after `try` and `ack`.
const KINDS: [&str; 5] = ["one", "batch", "rows", "promote", "keys"];

/// Runs the load on the space in a directory until the process is killed, or something fails.
pub fn child(dir: &Path, life: u64) -> Result<(), String> {
    let space = Space::open(dir, space_options()).map_err(|error| error.to_string())?;
    let script = "CREATE TABLE IF NOT EXISTS t(id TEXT PRIMARY KEY, body TEXT NOT NULL)";
    run_sql(&space, "main", script).map_err(|error| error.to_string())?;
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = KINDS
            .iter()
            .map(|kind| {
                let (space, failed) = (&space, &failed);
                scope.spawn(move || {
                    let result = repeat(space, kind, life, failed);
                    failed.store(true, Ordering::Relaxed);
                    result
                })
            })
            .collect();
        for thread in threads {
            let result = thread.join().map_err(|_| "a thread panicked".to_owned())?;
            result.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

fn repeat(space: &Space, kind: &str, life: u64, failed: &AtomicBool) -> Result<(), io::Error> {
    for number in 0_u64.. {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("{life}-{number}");
        tell("try", kind, &id)?;
        call(space, kind, &id).map_err(io::Error::other)?;
        tell("ack", kind, &id)?;
    }
    Ok(())
}

/// One line, in one write.
fn tell(what: &str, kind: &str, id: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{what} {kind} {id}\n").as_bytes())?;
    out.flush()
}

fn run_sql(space: &Space, branch: &str, script: &str) -> Result<(), Error> {
    space.sql(branch, script, &[], &SqlOptions::default(), &Origin::actor("kill")).map(|_| ())
}

/// The records of a call, by its kind and id.
pub(super) fn records(kind: &str, id: &str) -> Vec<Vec<u8>> {
    let count = match kind {
        "one" => 1,
        "batch" => 3,
        "promote" => 2,
        _ => 0,
    };
    (0..count).map(|number| format!("{kind} {id} {number}").into_bytes()).collect()
}

/// Ids of the rows of a call.
pub(super) fn rows(kind: &str, id: &str) -> Vec<String> {
    let count = match kind {
        "rows" => 2,
        "promote" => 1,
        _ => 0,
    };
    (0..count).map(|number| format!("{kind} {id} {number}")).collect()
}

fn call(space: &Space, kind: &str, id: &str) -> Result<(), Error> {
    let by = Origin::actor("kill").because(kind);
    let insert = |row| format!("INSERT INTO t VALUES ('{row}', '{}');", "x".repeat(300));
    let insert = rows(kind, id).iter().map(insert).collect::<Vec<_>>().concat();
    match kind {
        "one" => space.append("main", "log", records(kind, id), &by).map(|_| ()),
        "batch" => space.append_at("main", "log", records(kind, id), None, &by).map(|_| ()),
        "rows" => run_sql(space, "main", &insert),
        "keys" => {
            space.put("main", "keys", b"newest", id.as_bytes(), &by)?;
            space.incr("main", "keys", b"count", 1, &by).map(|_| ())
        }
        _ => {
            let name = format!("fork-{id}");
            let request = ForkRequest {
                parent: "main".to_owned(),
                name: name.clone(),
                kind: ForkKind::Live,
                at: None,
                owner: String::new(),
                ttl_ms: None,
            };
            space.fork(&request, &by)?;
            space.append(&name, "log", records(kind, id), &by)?;
            run_sql(space, &name, &insert)?;
            space.promote(&name, &PromoteOptions::default(), &by).map(|_| ())
        }
    }
}
