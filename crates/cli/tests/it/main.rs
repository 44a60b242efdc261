//! The command as its users run it: real processes, real nodes, files.

mod errors;
mod help;
mod story;
mod transfer;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A directory to run in, with a node in it once started.
struct Place {
    dir: tempfile::TempDir,
    node: Option<Node>,
}

struct Node {
    process: Child,
    address: String,
}

/// What a command said, and its exit code.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap(), node: None }
    }

    /// A place with a node.
    fn served() -> Place {
        let mut place = Place::new();
        place.start();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(args).current_dir(self.dir.path()).env_clear();
        command.env("COLUMNS", "100").env("ANABRANCH_ACTOR", "tester");
        if let Some(node) = &self.node {
            command.env("ANABRANCH_ADDR", &node.address);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// Runs and demands success; returns stdout.
    fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out
    }

    /// Runs, demands success and reads one JSON value per line.
    fn json(&self, args: &[&str]) -> Vec<serde_json::Value> {
        let out = self.ok(&[args, &["--json"]].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn run_with(&self, args: &[&str], input: &[u8]) -> Said {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Said::of(output)
    }

    /// Starts `dev` on a free port, and waits until it serves.
    fn start(&mut self) {
        let args = ["dev", "--listen", "127.0.0.1:0", "--dir", "data", "--json"];
        let mut process = self.command(&args).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).expect(&line);
        let address = ready["address"].as_str().unwrap().to_owned();
        self.node = Some(Node { process, address });
    }

    /// Asks the node to end, as Ctrl-C does; returns its exit code.
    fn stop(&mut self) -> Option<i32> {
        let mut node = self.node.take()?;
        let id = node.process.id().to_string();
        Command::new("kill").args(["-INT", &id]).status().unwrap();
        node.process.wait().unwrap().code()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(node) = &mut self.node {
            let _ = node.process.kill();
            let _ = node.process.wait();
        }
    }
}

impl Said {
    fn of(output: Output) -> Said {
        Said {
            code: output.status.code().expect("ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn crate_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
