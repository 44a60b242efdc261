//! Data-driven scenarios: each file of `tests/transcripts` is a list of commands with the effects
//! that follow. `UPDATE_TRANSCRIPTS=1` writes the effects as they are now.
//!
//! A block is a command line, `----`, the effects, and an empty line; `#` begins a comment.
//! - `start [order_at=N] [batch_max=N] [manual]`
//! - `receive ID [LETTER]`: a payload into the journal buffer; the letter stands for its content
//! - `written`: with `manual`, the oldest batch of entries stands in the journal buffer
//! - `flush`: the whole buffer is durable; `persist MARK`: through a record
//! - `vote-persisted`, `order`, `read TICKET`, `tick`, `checkpoint INDEX`
//! - `crash [survivors=N] [vote]`: N records of the buffer, or the vote, reached the disk
//! - `held ID`, `needed INDEX`, `status`: questions
//! - `event ...`: a raw event, to show what is a bug of the caller

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anabranch_log::{Digest, NodeId, SessionId, WriteId};
use anabranch_replica::{Config, Effect, Event, LogEntry, Mark, Order, RaftIndex, Term, Vote};

use crate::desk::{Desk, Record};

#[test]
#[expect(clippy::disallowed_methods, reason = "the files are the test, and it can rewrite them")]
fn every_transcript_still_holds() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "the transcripts are missing");
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let mut failed = Vec::new();
    for file in files {
        let expected = std::fs::read_to_string(&file).unwrap();
        let actual = run(&expected);
        if update {
            std::fs::write(&file, &actual).unwrap();
        } else if actual != expected {
            failed.push(format!("{}:\n{}", file.display(), first_difference(&expected, &actual)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn first_difference(expected: &str, actual: &str) -> String {
    let mut expected_lines = expected.lines();
    for (number, line) in actual.lines().enumerate() {
        let wanted = expected_lines.next().unwrap_or("(end)");
        if wanted != line {
            return format!("line {}: expected `{wanted}`, found `{line}`", number + 1);
        }
    }
    format!("the end is missing: {:?}", expected_lines.next())
}

/// The transcript with the effects of its commands.
fn run(text: &str) -> String {
    let mut desk = Desk::new(Config::single(NodeId(1), 7));
    let mut output = String::new();
    let mut in_effects = false;
    for line in text.lines() {
        if line.is_empty() {
            in_effects = false;
        }
        if in_effects || line == "----" {
            in_effects = true;
            continue;
        }
        output.push_str(line);
        output.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            output.push_str("----\n");
            output.push_str(&answer(&mut desk, line));
        }
    }
    output
}

fn answer(desk: &mut Desk, command: &str) -> String {
    let result = catch_unwind(AssertUnwindSafe(|| execute(desk, command)));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let text = text.unwrap_or_default();
        desk.crash(0, false);
        format!("bug: {}\n", text.lines().next().unwrap_or_default())
    })
}

fn execute(desk: &mut Desk, command: &str) -> String {
    let words: Vec<_> = command.split_whitespace().collect();
    let number = |position: usize| words[position].parse::<u64>().unwrap();
    let option = |name: &str| {
        let value = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.map(|value| value.parse::<usize>().unwrap())
    };
    let effects = match words[0] {
        "start" => {
            desk.config.order_at = option("order_at").unwrap_or(1);
            desk.config.batch_max = option("batch_max").unwrap_or(1024);
            desk.write_at_once = !words.contains(&"manual");
            match desk.start() {
                Ok(effects) => effects,
                Err(error) => return format!("error: {error}\n"),
            }
        }
        "receive" => desk.receive(id(words[1]), digest(words.get(2).copied())),
        "written" => desk.write_batch(),
        "flush" => desk.flush(),
        "persist" => desk.persist(Mark(number(1))),
        "vote-persisted" => desk.persist_vote(),
        "order" => desk.step(Event::Order),
        "read" => desk.step(Event::Read { ticket: number(1) }),
        "tick" => desk.step(Event::Tick),
        "checkpoint" => {
            let index = RaftIndex(number(1));
            let term = desk.journal.values().find_map(|record| match record {
                Record::Entry(entry) if entry.index == index => Some(entry.term),
                _ => None,
            });
            desk.checkpoint(index, term.expect("the entry is in the journal"))
        }
        "crash" => {
            desk.crash(option("survivors").unwrap_or(0) as u64, words.contains(&"vote"));
            Vec::new()
        }
        "event" => desk.step(raw_event(&words[1..])),
        _ => return query(desk, &words),
    };
    effects.iter().map(describe).collect()
}

fn query(desk: &Desk, words: &[&str]) -> String {
    let replica = desk.replica.as_ref().expect("the replica runs");
    match words[0] {
        "held" => match replica.held(&id(words[1])) {
            Some(held) => format!("{} durable={}\n", letter(&held.digest), held.durable),
            None => "not held\n".into(),
        },
        "needed" => match replica.needed_from(RaftIndex(words[1].parse().unwrap())) {
            Some(mark) => format!("from record {mark}\n"),
            None => "nothing\n".into(),
        },
        "status" => {
            let status = replica.status();
            let leader = status.leader.map_or("none".into(), |leader| leader.to_string());
            format!(
                "term={} leader={leader} base={} applied={} committed={} last={} unordered={}\n",
                status.term,
                status.base,
                status.applied,
                status.committed,
                status.last,
                status.unordered
            )
        }
        _ => panic!("unknown command {words:?}"),
    }
}

fn raw_event(words: &[&str]) -> Event {
    let number = |position: usize| words[position].parse::<u64>().unwrap();
    match words[0] {
        "received" => Event::Received {
            id: id(words[1]),
            digest: digest(None),
            mark: Mark(words[2].parse().unwrap()),
        },
        "written" => Event::EntriesWritten {
            batch: number(1),
            first: Mark(number(2)),
            last: Mark(number(3)),
        },
        "checkpointed" => Event::Checkpointed { index: RaftIndex(number(1)) },
        "vote-persisted" => Event::VotePersisted(Vote {
            term: Term(number(1)),
            voted_for: Some(NodeId(1)),
            commit: RaftIndex(0),
        }),
        _ => panic!("unknown event {words:?}"),
    }
}

/// `session/seq`.
fn id(text: &str) -> WriteId {
    let (session, seq) = text.split_once('/').expect("an id is session/seq");
    let (session, seq) = (session.parse().unwrap(), seq.parse().unwrap());
    WriteId { session: SessionId(session), seq, attempt: 0 }
}

fn digest(letter: Option<&str>) -> Digest {
    Digest([letter.unwrap_or("a").as_bytes()[0]; 32])
}

fn letter(digest: &Digest) -> char {
    char::from(digest.0[0])
}

fn short(id: &WriteId) -> String {
    format!("{}/{}", id.session.0, id.seq)
}

fn order_text(order: &Order) -> String {
    match order {
        Order::Noop => "noop".into(),
        Order::Records(records) => {
            let records =
                records.iter().map(|(id, digest)| short(id) + ":" + &letter(digest).to_string());
            records.collect::<Vec<_>>().join(" ")
        }
    }
}

fn entry_text(entry: &LogEntry) -> String {
    let order = Order::decode(entry.kind, &entry.data).unwrap();
    format!("{}@{} [{}]", entry.index, entry.term, order_text(&order))
}

fn describe(effect: &Effect) -> String {
    let mut text = String::new();
    match effect {
        Effect::WriteVote(vote) => {
            let voted_for = vote.voted_for.map_or("none".into(), |node| node.to_string());
            write!(text, "write-vote term={} for={voted_for} commit={}", vote.term, vote.commit)
        }
        Effect::WriteEntries { batch, entries } => {
            let entries: Vec<_> = entries.iter().map(entry_text).collect();
            write!(text, "write-entries batch={batch} {}", entries.join(", "))
        }
        Effect::Acknowledge { ids, durable } => {
            let ids: Vec<_> = ids.iter().map(short).collect();
            write!(text, "acknowledge {} after record {durable}", ids.join(" "))
        }
        Effect::Refuse { id, received, held } => {
            let (received, held) = (letter(received), letter(held));
            write!(text, "refuse {} received={received} held={held}", short(id))
        }
        Effect::LeaderChanged { leader, term } => write!(text, "leader {leader} term={term}"),
        Effect::Apply { index, term, order, durable } => {
            write!(text, "apply {index}@{term} [{}] after record {durable}", order_text(order))
        }
        Effect::ReadReady { ticket, index } => write!(text, "read-ready {ticket} at {index}"),
    }
    .unwrap();
    text + "\n"
}
