//! Help of every command against snapshots; `ANABRANCH_BLESS=1` writes them anew.

use super::{Place, crate_file};

/// Every command, from the help itself: none can be forgotten.
fn commands(place: &Place) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["-h"]).collect();
        let help = place.ok(&args);
        let list = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        for line in list.lines().take_while(|line| !line.is_empty()) {
            let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) else {
                continue;
            };
            let mut path: Vec<String> = path.clone();
            path.push(name.split(' ').next().unwrap().to_owned());
            all.push(path.clone());
            open.push(path);
        }
    }
    all.sort();
    all
}

#[test]
fn help_is_as_written_down() {
    let place = Place::new();
    let bless = std::env::var_os("ANABRANCH_BLESS").is_some();
    let commands = commands(&place);
    assert!(commands.len() > 30, "{commands:?}");
    let mut expected = Vec::new();
    let mut different = Vec::new();
    for path in &commands {
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = place.ok(&args);
        let name = if path.is_empty() { "anabranch".to_owned() } else { path.join("-") };
        let file = crate_file(&format!("tests/help/{name}.txt"));
        if bless {
            std::fs::write(&file, &help).unwrap();
        } else if std::fs::read_to_string(&file).ok().as_ref() != Some(&help) {
            different.push(name.clone());
        }
        expected.push(format!("{name}.txt"));
    }
    assert!(different.is_empty(), "help changed: {different:?}; ANABRANCH_BLESS=1 accepts it");
    for entry in std::fs::read_dir(crate_file("tests/help")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(expected.contains(&name), "{name} belongs to no command");
    }
}

#[test]
fn every_command_shows_an_example_and_fits() {
    let place = Place::new();
    for path in commands(&place) {
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = place.ok(&args);
        let group = help.contains("\nCommands:\n");
        assert!(group || help.contains("Example"), "{path:?} shows no example");
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{path:?}: {line}");
        }
    }
}

#[test]
fn completions_name_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]);
        for path in commands(&place) {
            if let Some(name) = path.last() {
                assert!(script.contains(name.as_str()), "{shell} lacks {path:?}");
            }
        }
    }
}

#[test]
fn version_in_three_ways() {
    let place = Place::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(place.ok(&["version"]), format!("anabranch {version}\n"));
    assert_eq!(place.ok(&["--version"]), format!("anabranch {version}\n"));
    assert_eq!(place.json(&["version"])[0]["version"], version);
}
