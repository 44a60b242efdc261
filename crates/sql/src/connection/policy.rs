//! The authorizer: what statements may do, and what they read and define.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// PRAGMAs that only tell something. None of them takes a value that changes anything.
const READ_PRAGMAS: [&str; 18] = [
    "application_id",
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "foreign_key_check",
    "foreign_key_list",
    "freelist_count",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "page_count",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// PRAGMAs that may be asked, but not set.
const ASK_PRAGMAS: [&str; 5] =
    ["encoding", "foreign_keys", "page_size", "schema_version", "user_version"];

/// What a statement does, as its preparation told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Tables and views read, lower case.
    pub(crate) reads: BTreeSet<String>,
    /// Whether it defines, alters or drops something.
    pub(crate) schema: bool,
    /// Tables dropped, as named in the schema.
    pub(crate) drops: Vec<String>,
    /// Tables altered, as named in the schema.
    pub(crate) alters: Vec<String>,
    /// Tables created, as named in the statement.
    pub(crate) creates: Vec<String>,
    /// Whether it creates or drops a virtual table (whose shadow tables change with it).
    pub(crate) virtual_table: bool,
}

#[derive(Default)]
struct State {
    /// Statements of this crate: everything allowed, nothing noted.
    internal: bool,
    facts: Facts,
    refused: Option<String>,
}

/// Shared between a connection and its authorizer callback.
#[derive(Default)]
pub(crate) struct Policy {
    state: Mutex<State>,
}

impl Policy {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn install(
        self: &Arc<Policy>,
        database: &mut rusqlite::Connection,
    ) -> rusqlite::Result<()> {
        let policy = Arc::clone(self);
        database.authorizer(Some(move |context: AuthContext<'_>| policy.decide(&context)))
    }

    /// Enters or leaves the mode for statements of this crate.
    pub(crate) fn set_internal(&self, internal: bool) -> bool {
        std::mem::replace(&mut self.state().internal, internal)
    }

    /// Facts noted since the last call.
    pub(crate) fn take_facts(&self) -> Facts {
        std::mem::take(&mut self.state().facts)
    }

    /// Why a statement was refused since the last call.
    pub(crate) fn take_refusal(&self) -> Option<String> {
        self.state().refused.take()
    }

    fn decide(&self, context: &AuthContext<'_>) -> Authorization {
        let mut state = self.state();
        if state.internal {
            return Authorization::Allow;
        }
        match judge(&mut state.facts, &context.action, context.database_name) {
            Ok(()) => Authorization::Allow,
            Err(reason) => {
                state.refused.get_or_insert(reason);
                Authorization::Deny
            }
        }
    }
}

const OWN_TRANSACTION: &str = "BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE are not allowed: the \
                               transaction is opened and committed from outside";

/// Notes what an action does, or says why it is refused.
fn judge(facts: &mut Facts, action: &AuthAction<'_>, database: Option<&str>) -> Result<(), String> {
    use AuthAction as A;
    // A table of which no column is read (`count(*)`) comes without its database.
    let own = database.is_none_or(|name| name == "main");
    match *action {
        // ANALYZE and REINDEX define nothing: their results are derived.
        A::Select | A::Recursive | A::Insert { .. } | A::Analyze { .. } | A::Reindex { .. } => {}
        A::Read { table_name, .. } | A::Update { table_name, .. } | A::Delete { table_name } => {
            if own && !table_name.starts_with("sqlite_") {
                facts.reads.insert(table_name.to_lowercase());
            }
        }
        A::CreateTable { table_name } => {
            if !table_name.starts_with("sqlite_") {
                facts.schema = true;
                facts.creates.push(table_name.to_owned());
            }
        }
        A::CreateIndex { .. }
        | A::CreateTrigger { .. }
        | A::CreateView { .. }
        | A::DropIndex { .. }
        | A::DropTrigger { .. }
        | A::DropView { .. } => facts.schema = true,
        A::AlterTable { table_name, .. } => {
            facts.schema = true;
            facts.alters.push(table_name.to_owned());
        }
        A::DropTable { table_name } => {
            facts.schema = true;
            facts.drops.push(table_name.to_owned());
        }
        A::CreateVtable { module_name, .. } => {
            facts.schema = true;
            facts.virtual_table = true;
            if !module_name.eq_ignore_ascii_case("fts5") {
                return Err(format!("virtual tables of module {module_name} are not supported"));
            }
        }
        A::DropVtable { table_name, .. } => {
            facts.schema = true;
            facts.virtual_table = true;
            facts.drops.push(table_name.to_owned());
        }
        A::Pragma { pragma_name, pragma_value } => pragma(pragma_name, pragma_value)?,
        A::Function { function_name } => {
            if function_name.eq_ignore_ascii_case("load_extension") {
                return Err(String::from("load_extension() is not allowed"));
            }
        }
        A::Transaction { .. } | A::Savepoint { .. } => return Err(String::from(OWN_TRANSACTION)),
        A::Attach { .. } | A::Detach { .. } => {
            return Err(String::from(
                "ATTACH and DETACH are not allowed: a branch is one database",
            ));
        }
        _ if is_temporary(action) => {
            return Err(String::from(
                "temporary objects are not supported: a connection does not outlive its \
                 transaction; use WITH",
            ));
        }
        _ => return Err(String::from("this kind of statement is not allowed")),
    }
    Ok(())
}

fn is_temporary(action: &AuthAction<'_>) -> bool {
    use AuthAction as A;
    matches!(
        action,
        A::CreateTempIndex { .. }
            | A::CreateTempTable { .. }
            | A::CreateTempTrigger { .. }
            | A::CreateTempView { .. }
            | A::DropTempIndex { .. }
            | A::DropTempTable { .. }
            | A::DropTempTrigger { .. }
            | A::DropTempView { .. }
    )
}

fn pragma(name: &str, value: Option<&str>) -> Result<(), String> {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    if READ_PRAGMAS.contains(&name) && !(name == "application_id" && value.is_some()) {
        return Ok(());
    }
    if ASK_PRAGMAS.contains(&name) {
        return match value {
            None => Ok(()),
            Some(_) => Err(format!("PRAGMA {name} may be asked, not set")),
        };
    }
    Err(format!("PRAGMA {name} is not allowed"))
}
