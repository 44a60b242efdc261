//! Between the embedded API and the wire: the same shapes, field by field, so that the compiler
//! says when they part.

use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_api::{SqlValue, http as wire};
use anabranch_node as node;
use anabranch_node::Value;

pub(crate) fn origin(by: wire::By) -> node::Origin {
    let time_ms = if by.time_ms == 0 { now_ms() } else { by.time_ms };
    let write = by.write.map(|write| node::SessionWrite {
        session: write.session,
        seq: write.seq,
        answered: write.answered,
    });
    node::Origin { actor: by.actor, intent: by.intent, time_ms, write }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn to_value(value: SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => Value::Integer(number),
        SqlValue::Real(number) => Value::Real(number),
        SqlValue::Text(text) => Value::Text(text),
        SqlValue::Blob(bytes) => Value::Blob(bytes),
    }
}

fn value(value: Value) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Integer(number) => SqlValue::Integer(number),
        Value::Real(number) => SqlValue::Real(number),
        Value::Text(text) => SqlValue::Text(text),
        Value::Blob(bytes) => SqlValue::Blob(bytes),
    }
}

fn row(row: Vec<Value>) -> Vec<SqlValue> {
    row.into_iter().map(value).collect()
}

fn rows(rows: Vec<Vec<Value>>) -> Vec<Vec<SqlValue>> {
    rows.into_iter().map(row).collect()
}

pub(crate) fn acknowledged(ack: node::Acknowledged) -> wire::Acknowledged {
    wire::Acknowledged { session: ack.session, seq: ack.seq }
}

pub(crate) fn record(record: node::StreamRecord) -> wire::StreamRecord {
    wire::StreamRecord { offset: record.offset, index: record.index, value: record.value.into() }
}

pub(crate) fn key_value(found: node::KeyValue) -> wire::KeyValue {
    wire::KeyValue { key: found.key.into(), value: found.value.into(), index: found.index }
}

pub(crate) fn stream_info(info: node::StreamInfo) -> wire::StreamInfo {
    wire::StreamInfo { stream: info.stream, keyed: info.keyed, length: info.length }
}

pub(crate) fn sql_result(result: node::SqlResult) -> wire::SqlReply {
    wire::SqlReply {
        columns: result.columns,
        rows: rows(result.rows),
        truncated: result.truncated,
        changes: result.changes,
        index: result.index,
        read_index: result.read_index,
        behind: result.behind,
    }
}

pub(crate) fn table_info(info: node::TableInfo) -> wire::TableInfo {
    let column = |(name, declared)| wire::ColumnInfo { name, declared };
    wire::TableInfo {
        table: info.table,
        columns: info.columns.into_iter().map(column).collect(),
        rows: info.rows,
    }
}

pub(crate) fn check_result(result: node::CheckResult) -> wire::CheckResult {
    wire::CheckResult {
        name: result.name,
        sql: result.sql,
        columns: result.columns,
        rows: rows(result.rows),
        passed: result.passed,
        error: result.error,
    }
}

fn check_results(results: Vec<node::CheckResult>) -> Vec<wire::CheckResult> {
    results.into_iter().map(check_result).collect()
}

pub(crate) fn to_fork_request(request: wire::ForkRequest) -> (node::ForkRequest, node::Origin) {
    let kind = match request.kind {
        wire::ForkKind::Live => node::ForkKind::Live,
        wire::ForkKind::Frozen => node::ForkKind::Frozen,
    };
    let fork = node::ForkRequest {
        parent: request.parent,
        name: request.name,
        kind,
        at: request.at,
        owner: request.owner,
        ttl_ms: request.ttl_ms,
    };
    (fork, origin(request.by))
}

pub(crate) fn branch_info(info: node::BranchInfo) -> wire::BranchInfo {
    let status = match info.status {
        node::BranchStatus::Open => wire::BranchStatus::Open,
        node::BranchStatus::Closing => wire::BranchStatus::Closing,
        node::BranchStatus::Promoted { into, at } => wire::BranchStatus::Promoted { into, at },
        node::BranchStatus::Discarded { at } => wire::BranchStatus::Discarded { at },
        node::BranchStatus::Expired { at } => wire::BranchStatus::Expired { at },
    };
    let kind = info.kind.map(|kind| match kind {
        node::ForkKind::Live => wire::ForkKind::Live,
        node::ForkKind::Frozen => wire::ForkKind::Frozen,
    });
    wire::BranchInfo {
        name: info.name,
        id: info.id,
        parent: info.parent,
        kind,
        status,
        owner: info.owner,
        ttl_ms: info.ttl_ms,
        created: info.created,
        forked_at: info.forked_at,
        table_version: info.table_version,
        depth: info.depth,
        own_records: info.own_records,
        own_commits: info.own_commits,
    }
}

pub(crate) fn to_against(against: wire::Against) -> node::Against {
    match against {
        wire::Against::Base => node::Against::Base,
        wire::Against::Parent => node::Against::Parent,
    }
}

fn table_diff(diff: node::TableDiff) -> wire::TableDiff {
    let row_diff = |diff: node::RowDiff| wire::RowDiff {
        kind: match diff.kind {
            node::ChangeKind::Insert => wire::ChangeKind::Insert,
            node::ChangeKind::Update => wire::ChangeKind::Update,
            node::ChangeKind::Delete => wire::ChangeKind::Delete,
        },
        key: row(diff.key),
        old: diff.old.map(row),
        new: diff.new.map(row),
    };
    wire::TableDiff {
        table: diff.table,
        columns: diff.columns,
        inserts: diff.inserts,
        updates: diff.updates,
        deletes: diff.deletes,
        rows: diff.rows.into_iter().map(row_diff).collect(),
        truncated: diff.truncated,
    }
}

pub(crate) fn diff(diff: node::Diff) -> wire::Diff {
    let stream = |(stream, records)| wire::StreamDiff { stream, records };
    let key = |diff: node::KeyDiff| wire::KeyDiff {
        stream: diff.stream,
        key: diff.key.into(),
        old: diff.old.map(Into::into),
        new: diff.new.map(Into::into),
    };
    wire::Diff {
        branch: diff.branch,
        against: match diff.against {
            node::Against::Base => wire::Against::Base,
            node::Against::Parent => wire::Against::Parent,
        },
        index: diff.index,
        tables: diff.tables.into_iter().map(table_diff).collect(),
        schema: diff.schema,
        streams: diff.streams.into_iter().map(stream).collect(),
        keys: diff.keys.into_iter().map(key).collect(),
        keys_changed: diff.keys_changed,
    }
}

pub(crate) fn to_promote_options(options: wire::PromoteOptions) -> node::PromoteOptions {
    node::PromoteOptions {
        onto: options.onto,
        policy: match options.policy {
            wire::Policy::Fail => node::Policy::Fail,
            wire::Policy::Fork => node::Policy::Fork,
            wire::Policy::Parent => node::Policy::Parent,
        },
        cell_merge: options.cell_merge,
        strict: options.strict,
        token: options.token,
    }
}

fn row_conflict(conflict: node::RowConflict) -> wire::RowConflict {
    wire::RowConflict {
        table: conflict.table,
        columns: conflict.columns,
        key: row(conflict.key),
        base: conflict.base.map(row),
        ours: conflict.ours.map(row),
        theirs: conflict.theirs.map(row),
        reason: conflict.reason,
    }
}

pub(crate) fn preview(preview: node::Preview) -> wire::Preview {
    let key = |conflict: node::KeyConflict| wire::KeyConflict {
        stream: conflict.stream,
        key: conflict.key.into(),
        base: conflict.base.map(Into::into),
        ours: conflict.ours.map(Into::into),
        theirs: conflict.theirs.map(Into::into),
    };
    wire::Preview {
        token: preview.token,
        target: preview.target,
        diff: diff(preview.diff),
        conflicts: preview.conflicts.into_iter().map(row_conflict).collect(),
        key_conflicts: preview.key_conflicts.into_iter().map(key).collect(),
        checks: check_results(preview.checks),
        stale_reads: preview.stale_reads,
        would_land: preview.would_land,
    }
}

pub(crate) fn promoted(promoted: node::Promoted) -> wire::Promoted {
    let (inserts, updates, deletes) = promoted.rows;
    let left_out = |(stream, key): (String, Vec<u8>)| wire::LeftOut { stream, key: key.into() };
    wire::Promoted {
        index: promoted.index,
        into: promoted.into,
        records: promoted.records,
        rows: wire::RowCounts { inserts, updates, deletes },
        left_out: promoted.left_out.into_iter().map(left_out).collect(),
        settled: promoted.settled.into_iter().map(row_conflict).collect(),
        checks: check_results(promoted.checks),
    }
}

pub(crate) fn history_entry(entry: node::HistoryEntry) -> wire::HistoryEntry {
    wire::HistoryEntry {
        index: entry.index,
        count: entry.count,
        branch: entry.branch,
        kind: entry.kind,
        detail: entry.detail,
        actor: entry.actor,
        intent: entry.intent,
        time_ms: entry.time_ms,
        chain: entry.chain,
    }
}

pub(crate) fn status(status: node::Status) -> wire::Status {
    wire::Status {
        space: status.space,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        index: status.index,
        term: status.term,
        unordered: status.unordered,
        checkpoint: status.checkpoint,
        branches: status.branches,
        sessions: status.sessions,
        chain: status.chain,
    }
}
