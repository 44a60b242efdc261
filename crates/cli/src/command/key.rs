//! `put`, `get`, `delete`, `cas`, `incr`, `scan`.

use anabranch_client::{Bytes, KeyValue, Scan as Query};
use serde_json::json;

use super::Context;
use crate::args::{Cas, Delete, Get, Incr, Put, Scan};
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn put(context: &Context, args: Put) -> Outcome {
    let value = match (args.value, args.file) {
        (Some(value), _) => Bytes::from(value),
        (None, Some(file)) => Bytes(super::read_all(&file)?),
        (None, None) => Bytes::default(),
    };
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    connection.put(branch, &args.stream, args.key.as_str(), value)?;
    done(context, "put", &args.key)
}

pub(crate) fn delete(context: &Context, args: &Delete) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    connection.delete(branch, &args.stream, args.key.as_str())?;
    done(context, "deleted", &args.key)
}

fn done(context: &Context, what: &str, key: &str) -> Outcome {
    if context.printer.is_json() {
        context.printer.json(&json!({ "key": key }))?;
    } else {
        context.printer.note(&format!("{what} {}", crate::printer::one_line(key)));
    }
    Ok(Exit::Done)
}

pub(crate) fn get(context: &Context, args: &Get) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let Some(found) = connection.get(branch, &args.stream, args.key.as_str())? else {
        context.printer.note(&format!("no key {}", crate::printer::one_line(&args.key)));
        return Ok(Exit::No);
    };
    if context.printer.is_json() {
        context.printer.json(&found)?;
    } else {
        context.printer.bytes(found.value.as_ref(), !args.raw)?;
    }
    Ok(Exit::Done)
}

pub(crate) fn cas(context: &Context, args: Cas) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let value = args.value.filter(|_| !args.delete).map(Bytes::from);
    let change = anabranch_client::Cas { expected: args.version, value };
    let index = connection.cas(branch, &args.stream, args.key.as_str(), &change)?;
    context.printer.answer(&json!({ "index": index }), &index.to_string())?;
    Ok(Exit::Done)
}

pub(crate) fn incr(context: &Context, args: &Incr) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let value = connection.incr(branch, &args.stream, args.key.as_str(), args.delta)?;
    context.printer.answer(&json!({ "value": value }), &value.to_string())?;
    Ok(Exit::Done)
}

pub(crate) fn scan(context: &Context, args: Scan) -> Outcome {
    let connection = context.connect()?;
    let branch = connection.branch(&args.on.target)?;
    let mut left = args.count.unwrap_or(usize::MAX);
    let mut after = args.after.map(Bytes::from);
    while left > 0 {
        let query =
            Query { prefix: args.prefix.as_str().into(), after: after.take(), limit: Some(left) };
        let page = connection.scan(branch, &args.stream, &query)?;
        for found in &page.keys {
            print(context, found, args.keys)?;
        }
        left -= page.keys.len().min(left);
        after = page.keys.last().map(|found| found.key.clone());
        if !page.more || after.is_none() {
            break;
        }
    }
    Ok(Exit::Done)
}

fn print(context: &Context, found: &KeyValue, keys: bool) -> Outcome<()> {
    let printer = &context.printer;
    if printer.is_json() {
        return printer.json(found);
    }
    printer.bytes(found.key.as_ref(), keys)?;
    if !keys {
        printer.bytes(b"\t", false)?;
        printer.bytes(found.value.as_ref(), true)?;
    }
    Ok(())
}
