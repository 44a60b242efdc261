//! Cuts an SQL script into statements.
//!
//! A statement ends at a semicolon outside of quotes, comments and the body of CREATE TRIGGER:
//! the state machine of `sqlite3_complete`. What a cut is worth is decided by SQLite, which
//! prepares every piece by itself and refuses a piece that holds more than one statement.

/// One statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// The statement, from its first token, with its semicolon.
    pub(crate) text: &'a str,
    /// Byte offset of `text` in the script.
    pub(crate) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Semicolon,
    Space,
    Word(&'a str),
    Other,
}

/// The statements of a script, in order; empty ones are left out.
pub(crate) fn statements(script: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut state = State::Start;
    let mut first = None;
    let mut end = 0;
    let mut at = 0;
    while at < script.len() {
        let (token, length) = token(&script[at..]);
        if token != Token::Space && token != Token::Semicolon {
            first.get_or_insert(at);
        }
        at += length;
        if token != Token::Space {
            end = at;
        }
        state = state.after(token);
        if state == State::Start
            && let Some(start) = first.take().filter(|_| token == Token::Semicolon)
        {
            pieces.push(Piece { text: &script[start..at], start });
        }
    }
    if let Some(start) = first {
        pieces.push(Piece { text: &script[start..end], start });
    }
    pieces
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Normal,
    Explain,
    Create,
    /// Inside CREATE TRIGGER.
    Trigger,
    /// Just after a semicolon in a trigger.
    TriggerSemicolon,
    /// After END that follows such a semicolon.
    TriggerEnd,
}

impl State {
    fn after(self, token: Token<'_>) -> State {
        let word = match token {
            Token::Space => return self,
            Token::Word(word) => word,
            Token::Semicolon | Token::Other => "",
        };
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        let ends = token == Token::Semicolon;
        match self {
            State::Trigger | State::TriggerSemicolon | State::TriggerEnd => match self {
                State::TriggerEnd if ends => State::Start,
                _ if ends => State::TriggerSemicolon,
                State::TriggerSemicolon if is("end") => State::TriggerEnd,
                _ => State::Trigger,
            },
            _ if ends => State::Start,
            State::Create if is("temp") || is("temporary") => State::Create,
            State::Create if is("trigger") => State::Trigger,
            State::Start | State::Explain if is("create") => State::Create,
            State::Start if is("explain") => State::Explain,
            // EXPLAIN QUERY PLAN CREATE TRIGGER ...
            State::Explain if !is("explain") => State::Explain,
            _ => State::Normal,
        }
    }
}

/// The first token of `text` and its length in bytes (at least 1).
fn token(text: &str) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else { return (Token::Other, 1) };
    match first {
        b';' => (Token::Semicolon, 1),
        b' ' | b'\t' | b'\n' | b'\r' | 0x0c => (Token::Space, 1),
        b'-' if bytes.get(1) == Some(&b'-') => {
            (Token::Space, text.find('\n').map_or(text.len(), |end| end + 1))
        }
        b'/' if bytes.get(1) == Some(&b'*') => {
            let end = text.get(2..).and_then(|rest| rest.find("*/"));
            (Token::Space, end.map_or(text.len(), |end| end + 4))
        }
        // A doubled quote reads as two strings next to each other, which cuts the same.
        b'\'' | b'"' | b'`' | b'[' => {
            let close = if *first == b'[' { ']' } else { char::from(*first) };
            (Token::Other, text[1..].find(close).map_or(text.len(), |end| end + 2))
        }
        _ => {
            let is_word =
                |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
            match text.find(|c| !is_word(c)).unwrap_or(text.len()) {
                0 => (Token::Other, 1),
                length => (Token::Word(&text[..length]), length),
            }
        }
    }
}

/// The first words of a statement, upper case, without comments; quoted names are `""`.
fn first_words(text: &str, count: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < text.len() && words.len() < count {
        let (token, length) = token(&text[at..]);
        match token {
            Token::Word(word) => words.push(word.to_ascii_uppercase()),
            Token::Other if text[at..].starts_with(['\'', '"', '`', '[']) => {
                words.push(String::from("\"\""));
            }
            Token::Other => words.push(text[at..at + length].to_owned()),
            Token::Space | Token::Semicolon => {}
        }
        at += length;
    }
    words
}

/// The first word of a statement, upper case.
pub(crate) fn verb(text: &str) -> String {
    first_words(text, 1).pop().unwrap_or_default()
}

/// Whether a statement is CREATE TABLE ... AS SELECT.
pub(crate) fn creates_table_from_query(text: &str) -> bool {
    let words = first_words(text, 12);
    let mut words = words.iter().map(String::as_str).peekable();
    if words.next() != Some("CREATE") {
        return false;
    }
    words.next_if(|word| *word == "TEMP" || *word == "TEMPORARY");
    if words.next() != Some("TABLE") {
        return false;
    }
    if words.next_if_eq(&"IF").is_some() {
        words.nth(1);
    }
    words.next();
    if words.next_if_eq(&".").is_some() {
        words.next();
    }
    words.next() == Some("AS")
}

/// Whether a statement is ALTER TABLE ... DROP (COLUMN).
pub(crate) fn drops_column(text: &str) -> bool {
    let words = first_words(text, 6);
    words.first().is_some_and(|word| word == "ALTER") && words.iter().any(|word| word == "DROP")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<&str> {
        for piece in statements(script) {
            assert!(script[piece.start..].starts_with(piece.text));
        }
        statements(script).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn cuts_at_semicolons_outside_of_quotes_and_comments() {
        assert_eq!(texts(""), [""; 0]);
        assert_eq!(texts(" ; -- nothing\n ; /* ; */"), [""; 0]);
        assert_eq!(texts("SELECT 1"), ["SELECT 1"]);
        assert_eq!(texts("SELECT ';' ; SELECT 2;"), ["SELECT ';' ;", "SELECT 2;"]);
        assert_eq!(
            texts("-- a;b\nSELECT \"a;b\", `c;`, [d;] /* ; */ ; SELECT 'it''s;' -- x"),
            ["SELECT \"a;b\", `c;`, [d;] /* ; */ ;", "SELECT 'it''s;'"]
        );
        assert_eq!(texts("SELECT 'open; SELECT 2"), ["SELECT 'open; SELECT 2"]);
        assert_eq!(texts("SELECT /*"), ["SELECT"]);
        assert_eq!(texts("SELECT 'ä;ö'; é"), ["SELECT 'ä;ö';", "é"]);
    }

    #[test]
    fn a_trigger_is_one_statement() {
        let trigger = "CREATE TRIGGER t AFTER INSERT ON a BEGIN \
                       UPDATE b SET x = CASE WHEN 1 THEN 2 END; DELETE FROM c; END;";
        assert_eq!(texts(&format!("{trigger} SELECT 1;")), [trigger, "SELECT 1;"]);
        let temp = "create temp trigger t after insert on a begin select 1; end ;";
        assert_eq!(texts(&format!("{temp}SELECT 1")), [temp, "SELECT 1"]);
        let explained =
            "EXPLAIN QUERY PLAN CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END;";
        assert_eq!(texts(&format!("{explained}SELECT 1")), [explained, "SELECT 1"]);
        assert_eq!(texts("CREATE TABLE trigger_log(x); SELECT 1").len(), 2);
    }

    #[test]
    fn knows_tables_made_from_queries() {
        for text in [
            "CREATE TABLE a AS SELECT 1",
            "create table if not exists main.a as values (1)",
            "CREATE /* c */ TABLE \"a b\" AS SELECT 1",
            "CREATE TEMP TABLE [x] AS SELECT 1",
        ] {
            assert!(creates_table_from_query(text), "{text}");
        }
        for text in ["CREATE TABLE a(x AS (1))", "CREATE VIEW a AS SELECT 1", "SELECT 1 AS x"] {
            assert!(!creates_table_from_query(text), "{text}");
        }
    }
}
