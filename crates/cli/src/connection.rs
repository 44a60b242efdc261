//! A client of the space that the command is about, and the node behind it if it is our own.

use std::ops::Deref;

use anabranch_api::Target;
use anabranch_client::{Client, Options};

use crate::failure::{Failure, Outcome};
use crate::local::LocalNode;
use crate::settings::{Place, Settings};

/// Whether writes are numbered within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// One write at most: sent once; a lost answer is an unknown outcome. Costs nothing besides.
    Once,
    /// Many writes, each exactly once: a session is opened and closed for them.
    Numbered,
}

/// A client, and the node that it talks to if that is ours.
pub(crate) struct Connection {
    // Before the node: its session is closed while somebody still listens.
    client: Client,
    _node: Option<LocalNode>,
}

impl Connection {
    pub(crate) fn open(settings: &Settings, writes: Writes) -> Outcome<Connection> {
        let (addr, node) = match &settings.place {
            Place::Addr(addr) => (addr.clone(), None),
            Place::Dir(dir) => {
                let node = LocalNode::start(dir)?;
                (node.addr().to_string(), Some(node))
            }
        };
        let client = Client::new(Options {
            addr,
            actor: settings.actor.clone(),
            intent: settings.intent.clone(),
            timeout: settings.timeout,
            sessions: writes == Writes::Numbered,
            ..Options::default()
        })?;
        Ok(Connection { client, _node: node })
    }

    /// The branch of a target, after a look whether the space is the one that was meant.
    pub(crate) fn branch<'t>(&self, target: &'t Target) -> Outcome<&'t str> {
        if let Some(wanted) = &target.space {
            let served = self.client.status()?.space;
            if served != *wanted {
                let message = format!("the space here is `{served}`, not `{wanted}`");
                return Err(Failure::usage(message, "choose the node with --addr or --dir"));
            }
        }
        Ok(&target.branch)
    }
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
