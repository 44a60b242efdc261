//! SQL, tables and checks.

use anabranch_api::http::{
    AddCheckRequest, Bare, Check, CheckList, CheckResults, Done, SqlReply, SqlRequest, TableList,
};
use anabranch_api::{PAGE_ROWS, Problem, SQL_TIMEOUT_MS};
use anabranch_node::SqlOptions;
use axum::Json;
use axum::extract::State;

use super::extract::{Body, Path};
use super::failure::Failure;
use super::{App, convert};

pub(crate) async fn run(
    State(app): State<App>,
    Path(branch): Path<String>,
    Body(request): Body<SqlRequest>,
) -> Result<Json<SqlReply>, Failure> {
    let usual = SqlOptions::default();
    let timeout_ms = request.timeout_ms.unwrap_or(usual.timeout_ms);
    if timeout_ms > SQL_TIMEOUT_MS {
        let message = format!("timeout_ms=`{timeout_ms}` exceeds {SQL_TIMEOUT_MS}");
        return Err(Problem::invalid(message).into());
    }
    let options = SqlOptions {
        read_only: request.read_only,
        max_rows: request.max_rows.unwrap_or(PAGE_ROWS).min(PAGE_ROWS),
        timeout_ms,
    };
    let params: Vec<_> = request.params.into_iter().map(convert::to_value).collect();
    let by = convert::origin(request.by);
    let call = move |space: &anabranch_node::Space| {
        space.sql(&branch, &request.sql, &params, &options, &by)
    };
    Ok(Json(convert::sql_result(app.call(call).await?)))
}

pub(crate) async fn tables(
    State(app): State<App>,
    Path(branch): Path<String>,
) -> Result<Json<TableList>, Failure> {
    let tables = app.call(move |space| space.tables(&branch)).await?;
    Ok(Json(TableList { tables: tables.into_iter().map(convert::table_info).collect() }))
}

pub(crate) async fn checks(
    State(app): State<App>,
    Path(branch): Path<String>,
) -> Result<Json<CheckList>, Failure> {
    let checks = app.call(move |space| space.checks(&branch)).await?;
    let check = |(name, sql)| Check { name, sql };
    Ok(Json(CheckList { checks: checks.into_iter().map(check).collect() }))
}

pub(crate) async fn add_check(
    State(app): State<App>,
    Path(branch): Path<String>,
    Body(request): Body<AddCheckRequest>,
) -> Result<Json<Done>, Failure> {
    let by = convert::origin(request.by);
    let (name, sql) = (request.name, request.sql);
    let index = app.call(move |space| space.add_check(&branch, &name, &sql, &by)).await?;
    Ok(Json(Done { index }))
}

pub(crate) async fn drop_check(
    State(app): State<App>,
    Path((branch, name)): Path<(String, String)>,
    Body(request): Body<Bare>,
) -> Result<Json<Done>, Failure> {
    let by = convert::origin(request.by);
    let index = app.call(move |space| space.drop_check(&branch, &name, &by)).await?;
    Ok(Json(Done { index }))
}

pub(crate) async fn run_checks(
    State(app): State<App>,
    Path(branch): Path<String>,
    Body(_): Body<Bare>,
) -> Result<Json<CheckResults>, Failure> {
    let results = app.call(move |space| space.run_checks(&branch)).await?;
    Ok(Json(CheckResults { results: results.into_iter().map(convert::check_result).collect() }))
}
