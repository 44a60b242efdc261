//! `fork`.

use anabranch_client::{By, ForkKind, ForkRequest};
use serde_json::json;

use super::Context;
use crate::args::Fork;
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn run(context: &Context, args: Fork) -> Outcome {
    let connection = context.connect()?;
    let parent = connection.branch(&args.from)?.to_owned();
    let frozen = args.frozen || args.at.is_some();
    let request = ForkRequest {
        name: args.name,
        parent,
        kind: if frozen { ForkKind::Frozen } else { ForkKind::Live },
        at: args.at,
        owner: args.owner.unwrap_or_default(),
        ttl_ms: args.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        by: By::default(),
    };
    let forked = connection.fork_with(&request)?;
    if context.printer.is_json() {
        context.printer.json(&json!({
            "name": request.name, "parent": request.parent, "kind": request.kind,
            "id": forked.id, "index": forked.index,
        }))?;
    } else {
        let kind = if frozen { "frozen" } else { "live" };
        let (name, parent) = (&request.name, &request.parent);
        context.printer.note(&format!("{kind} fork {name} of {parent}, at index {}", forked.index));
    }
    Ok(Exit::Done)
}
