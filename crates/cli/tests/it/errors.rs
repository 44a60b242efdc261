//! Exit codes, and input that is wrong in every way we know.

use std::process::Stdio;

use super::Place;

/// Runs and demands this exit code and an error with a hint, in text and in JSON.
fn fails(place: &Place, args: &[&str], code: i32, kind: &str) -> String {
    let said = place.run(args);
    assert_eq!(said.code, code, "{args:?}: {said:?}");
    assert!(said.err.contains("error: ") && said.err.contains("hint: "), "{args:?}: {said:?}");
    let said = place.run(&[&["--json"], args].concat());
    assert_eq!(said.code, code, "{args:?}: {said:?}");
    let line = said.err.lines().last().unwrap();
    let problem: serde_json::Value = serde_json::from_str(line).expect(line);
    assert_eq!(problem["code"], kind, "{args:?}: {problem}");
    assert_eq!(problem["happened"], "no", "{args:?}: {problem}");
    problem["message"].as_str().unwrap().to_owned()
}

#[test]
fn usage_is_2() {
    let place = Place::new();
    for args in [
        &["nonsense"][..],
        &["append"],
        &["sql", "--max-rows", "x", "SELECT 1"],
        &["fork", "a", "--ttl", "5"],
        &["read", "s", "-b", "not a target"],
        &["cas", "kv", "k", "v"],
        &["export"],
        &["--addr", "127.0.0.1:1", "--dir", "d", "status"],
        &["--quiet", "--verbose", "status"],
        &["promote", "a", "--policy", "both"],
    ] {
        let said = place.run(args);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {said:?}");
        assert!(said.err.contains("error: "), "{args:?}: {said:?}");
        let said = place.run(&[&["--json"], args].concat());
        let problem: serde_json::Value = serde_json::from_str(&said.err).expect(&said.err);
        assert_eq!((said.code, &problem["code"]), (2, &"invalid_argument".into()), "{args:?}");
    }
    fails(&place, &["--addr", "https://x:1", "status"], 2, "invalid_argument");
    fails(&place, &["--dir", "nowhere", "status"], 2, "invalid_argument");
    fails(&place, &["serve"], 2, "invalid_argument");
    fails(&place, &["dev", "--listen", "0.0.0.0:0"], 2, "invalid_argument");
    assert!(!place.path("anabranch-data").exists());
}

#[test]
fn nobody_there_is_3() {
    let place = Place::new();
    let message = fails(&place, &["--addr", "127.0.0.1:1", "status"], 3, "unavailable");
    assert!(message.contains("http://127.0.0.1:1"), "{message}");
    fails(&place, &["--addr", "127.0.0.1:1", "append", "s", "x"], 3, "unavailable");
    fails(&place, &["--addr", "127.0.0.1:1", "tail", "s"], 3, "unavailable");
}

#[test]
fn lost_answer_is_4() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            use std::io::Read;
            // Takes the request, then hangs up.
            let _ = socket.unwrap().read(&mut [0; 4096]);
        }
    });
    let said = place.run(&["--addr", &addr, "put", "kv", "k", "v"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("it is not known whether it took effect"), "{said:?}");
    // A read changes nothing.
    assert_eq!(place.run(&["--addr", &addr, "status"]).code, 3);
}

#[test]
fn branches_that_are_not_open() {
    let place = Place::served();
    fails(&place, &["read", "s", "-b", "nobody"], 1, "unknown_branch");
    fails(&place, &["read", "s", "-b", "other@main"], 2, "invalid_argument");
    place.ok(&["fork", "a"]);
    fails(&place, &["fork", "a"], 1, "name_taken");
    place.ok(&["append", "s", "x", "-b", "a"]);
    place.ok(&["promote", "a"]);
    let message = fails(&place, &["append", "s", "y", "-b", "a"], 1, "branch_closed");
    assert!(message.contains("main"), "{message}");
    fails(&place, &["promote", "a"], 1, "branch_closed");
    fails(&place, &["discard", "main"], 2, "invalid_argument");
    fails(&place, &["fork", "not a name"], 2, "invalid_argument");
}

#[test]
fn input_that_is_too_large() {
    let place = Place::served();
    let large = vec![b'x'; (1 << 20) + 1];
    place.write("large", &large);
    fails(&place, &["append", "s", "--file", "large"], 2, "invalid_argument");
    fails(&place, &["put", "kv", "k", "--file", "large"], 2, "too_large");
    let key = "k".repeat(1025);
    fails(&place, &["put", "kv", &key, "v"], 2, "too_large");
    place.write("fits", &large[1..]);
    place.ok(&["append", "s", "--file", "fits"]);
    let many = [&large[1..], b"\n"].concat().repeat(9);
    assert_eq!(place.run_with(&["append", "s"], &many).code, 0);
    assert_eq!(place.json(&["streams"])[0]["length"], 10);
}

#[test]
fn input_that_is_no_text() {
    let place = Place::served();
    place.write("bad.sql", b"SELECT '\xff'");
    fails(&place, &["sql", "--file", "bad.sql"], 2, "invalid_argument");
    fails(&place, &["sql", "--file", "missing.sql"], 2, "invalid_argument");
    fails(&place, &["sql", "SELEC 1"], 1, "sql");
    fails(&place, &["sql", "ATTACH 'x' AS y"], 1, "sql");
    fails(&place, &["sql", "--read-only", "CREATE TABLE t(a)"], 1, "sql");
    // A record may be any bytes; JSON says them in base64.
    assert_eq!(place.run_with(&["append", "s"], b"\xff\xfe\n").code, 0);
    assert_eq!(place.json(&["read", "s"])[0]["value"]["base64"], "//4=");
}

#[test]
fn second_process_on_the_directory() {
    let place = Place::served();
    for args in [
        &["--dir", "data", "status"][..],
        &["serve", "--dir", "data", "--listen", "127.0.0.1:0"],
        &["verify", "data"],
        &["inspect", "data"],
    ] {
        fails(&place, args, 3, "locked");
    }
    let address = place.node.as_ref().unwrap().address.clone();
    fails(&place, &["dev", "--dir", "other", "--listen", &address], 3, "unavailable");
}

#[test]
fn directories_that_hold_no_space() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    fails(&place, &["verify", "empty"], 2, "invalid_argument");
    fails(&place, &["verify", "missing"], 2, "invalid_argument");
    let said = place.run(&["--dir", "empty", "status"]);
    assert!(said.code != 0 && said.err.contains("hint: "), "{said:?}");
}

#[test]
fn damage_is_1_and_named() {
    let mut place = Place::served();
    place.ok(&["append", "s", "a record that will be damaged"]);
    place.ok(&["append", "s", "one more"]);
    place.stop();
    let file =
        std::fs::read_dir(place.path("data/journal")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let needle = b"that will be damaged";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let said = place.run(&["verify", "data"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("journal/") && said.out.contains("not clean"), "{said:?}");
    let said = place.run(&["verify", "data", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &report["clean"]), (1, &false.into()));
}

#[test]
fn reader_that_goes_away_is_0() {
    let place = Place::served();
    let many: String = "a line of some length\n".repeat(20_000);
    assert_eq!(place.run_with(&["append", "s"], many.as_bytes()).code, 0);
    let mut child = place.command(&["read", "s"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn quiet_and_color() {
    let place = Place::served();
    let said = place.run(&["--quiet", "put", "kv", "a", "1"]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("", ""));
    let said = place.run(&["--color", "always", "--quiet", "get", "nothing", "there", "-b", "x"]);
    assert!(said.err.contains("\u{1b}[31merror:"), "{said:?}");
    let said = place.run(&["get", "nothing", "there", "-b", "x"]);
    assert!(!said.err.contains('\u{1b}'), "{said:?}");
    let said = Place::new().command(&["--help"]).stdout(Stdio::piped()).output().unwrap();
    assert!(!said.stdout.contains(&0x1b));
}
