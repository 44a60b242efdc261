//! `tables`.

use anabranch_client::TableInfo;

use super::Context;
use crate::args::Tables;
use crate::exit::Exit;
use crate::failure::Outcome;

pub(crate) fn run(context: &Context, args: &Tables) -> Outcome {
    let connection = context.connect()?;
    let tables = connection.tables(connection.branch(&args.on.target)?)?;
    let printer = &context.printer;
    if printer.is_json() {
        tables.iter().try_for_each(|table| printer.json(table))?;
        return Ok(Exit::Done);
    }
    let row = |info: &TableInfo| {
        let columns: Vec<String> = info
            .columns
            .iter()
            .map(|column| format!("{} {}", column.name, column.declared).trim_end().to_owned())
            .collect();
        vec![info.table.clone(), info.rows.to_string(), columns.join(", ")]
    };
    let rows: Vec<Vec<String>> = tables.iter().map(row).collect();
    printer.table(&["table", "rows", "columns"], &rows)?;
    Ok(Exit::Done)
}
