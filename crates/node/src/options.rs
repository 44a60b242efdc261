//! How a space is opened.

use anabranch_sql::Limits;

/// Settings of one space on this node. `Default` suits production on one machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make the space if the directory holds none; otherwise opening a missing one is an error.
    pub create: bool,
    /// Name given to a new space; an existing one keeps its own and must match if this is set.
    pub name: Option<String>,
    /// Identity given to a new space; `None` draws one at random. For the simulator.
    pub identity: Option<[u8; 16]>,
    /// Size of a journal segment in bytes, at least 64 KiB.
    pub segment_bytes: u64,
    /// Budget of the page and chunk cache in bytes.
    pub cache_bytes: u64,
    /// Bytes written to the journal after which a checkpoint is proposed.
    pub checkpoint_bytes: u64,
    /// Open although an unconfirmed record at the tail is damaged, and give that record up.
    pub accept_loss: bool,
    /// Run a thread that orders idle writes, expires forks and takes checkpoints. Off in the
    /// simulator, which calls [`crate::Space::tick`] itself.
    pub background: bool,
    /// Limits of SQL statements.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create: true,
            name: None,
            identity: None,
            segment_bytes: 16 << 20,
            cache_bytes: 256 << 20,
            checkpoint_bytes: 256 << 20,
            accept_loss: false,
            background: true,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// The identity of a new space: as given, or drawn at random.
    pub(crate) fn draw_identity(&self) -> crate::Result<[u8; 16]> {
        if let Some(identity) = self.identity {
            return Ok(identity);
        }
        let mut drawn = [0; 16];
        getrandom::fill(&mut drawn).map_err(|error| {
            crate::Error::no(
                anabranch_log::Kind::Unavailable,
                format!("no random number for the space's identity: {error}"),
            )
        })?;
        Ok(drawn)
    }
}
