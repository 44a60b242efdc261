//! The embedded API on real directories.

mod branches;
mod crash;
mod crowd;
mod fixture;
mod sql;
mod streams;

use anabranch_node::{ForkKind, ForkRequest, Options, Origin, Space};

/// A space in a directory of its own.
struct Fixture {
    dir: tempfile::TempDir,
    options: Options,
}

impl Fixture {
    fn new() -> Fixture {
        let options = Options { segment_bytes: 256 << 10, ..Options::default() };
        Fixture { dir: tempfile::tempdir().expect("a temporary directory"), options }
    }

    fn open(&self) -> Space {
        Space::open(self.dir.path(), self.options.clone()).expect("the space opens")
    }
}

fn me() -> Origin {
    Origin::actor("tester")
}

fn fork(space: &Space, parent: &str, name: &str, kind: ForkKind) {
    let request = ForkRequest {
        parent: parent.into(),
        name: name.into(),
        kind,
        at: None,
        owner: String::new(),
        ttl_ms: None,
    };
    space.fork(&request, &me()).expect("the fork is made");
}

fn values(space: &Space, branch: &str, stream: &str) -> Vec<String> {
    let page = space.read(branch, stream, 0, 1_000).expect("the stream is read");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("tests write text");
    page.records.iter().map(|record| text(&record.value)).collect()
}

fn records(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
