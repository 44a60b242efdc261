//! Row changes and schema statements as bytes.
//!
//! ```text
//! changes   number of shapes | shapes | number of steps | steps | number of names | names
//! shape     name | number of columns | columns | key: 0, or 1 and position, or 2, count, positions
//! step      0 | number of rows | rows          1 | schema statement
//!           2 | table to rebuild               3 | opaque table | reason
//!           4 | table | number of columns | columns | sum: u64 LE
//! row       shape | kind: 0 insert, 1 update, 2 delete | identity | images
//! identity  0 | zigzag rowid                   1 | number of values | values
//! ```
//! An image has one value per column of its shape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::change::{Fingerprint, RowChange, RowIdentity, Step, TableKey, TableShape};
use crate::value::Value;
use crate::wire::{Malformed, Reader, put_bytes, put_varint, unzigzag, zigzag};

const ROWS: u8 = 0;
const SCHEMA: u8 = 1;
const REBUILD: u8 = 2;
const OPAQUE: u8 = 3;
const DROPS: u8 = 4;

pub(super) fn encode(steps: &[Step], tables_read: &BTreeSet<String>) -> Vec<u8> {
    let mut numbers = BTreeMap::<&TableShape, u64>::new();
    let mut shapes = Vec::<&TableShape>::new();
    let mut body = Vec::new();
    put_varint(&mut body, steps.len() as u64);
    for step in steps {
        match step {
            Step::Rows(rows) => {
                body.push(ROWS);
                put_varint(&mut body, rows.len() as u64);
                // Changes come in stretches of one table: look a shape up once per stretch.
                let mut last: Option<(&Arc<TableShape>, u64)> = None;
                for row in rows {
                    let number = match last {
                        Some((shape, number)) if Arc::ptr_eq(shape, &row.table) => number,
                        _ => *numbers.entry(&row.table).or_insert_with(|| {
                            shapes.push(&row.table);
                            shapes.len() as u64 - 1
                        }),
                    };
                    last = Some((&row.table, number));
                    put_row(&mut body, number, row);
                }
            }
            Step::Schema(sql) => {
                body.push(SCHEMA);
                put_bytes(&mut body, sql.as_bytes());
            }
            Step::Rebuild(table) => {
                body.push(REBUILD);
                put_bytes(&mut body, table.as_bytes());
            }
            Step::Drops(same) => {
                body.push(DROPS);
                put_bytes(&mut body, same.table.as_bytes());
                put_varint(&mut body, same.columns.len() as u64);
                same.columns.iter().for_each(|column| put_bytes(&mut body, column.as_bytes()));
                body.extend_from_slice(&same.sum.to_le_bytes());
            }
            Step::Opaque { table, reason } => {
                body.push(OPAQUE);
                put_bytes(&mut body, table.as_bytes());
                put_bytes(&mut body, reason.as_bytes());
            }
        }
    }
    let mut out = Vec::with_capacity(body.len() + 64);
    put_varint(&mut out, shapes.len() as u64);
    for shape in shapes {
        put_shape(&mut out, shape);
    }
    out.extend_from_slice(&body);
    put_varint(&mut out, tables_read.len() as u64);
    for table in tables_read {
        put_bytes(&mut out, table.as_bytes());
    }
    out
}

fn put_shape(out: &mut Vec<u8>, shape: &TableShape) {
    put_bytes(out, shape.name.as_bytes());
    put_varint(out, shape.columns.len() as u64);
    shape.columns.iter().for_each(|column| put_bytes(out, column.as_bytes()));
    match &shape.key {
        TableKey::Rowid => out.push(0),
        TableKey::Integer(position) => {
            out.push(1);
            put_varint(out, *position as u64);
        }
        TableKey::Columns(positions) => {
            out.push(2);
            put_varint(out, positions.len() as u64);
            for position in positions {
                put_varint(out, *position as u64);
            }
        }
    }
}

fn put_row(out: &mut Vec<u8>, shape: u64, row: &RowChange) {
    put_varint(out, shape);
    out.push(match (&row.old, &row.new) {
        (None, _) => 0,
        (Some(_), Some(_)) => 1,
        (Some(_), None) => 2,
    });
    match &row.identity {
        RowIdentity::Rowid(rowid) => {
            out.push(0);
            put_varint(out, zigzag(*rowid));
        }
        RowIdentity::Key(values) => {
            out.push(1);
            put_varint(out, values.len() as u64);
            for value in values {
                value.encode(out);
            }
        }
    }
    for image in [&row.old, &row.new].into_iter().flatten() {
        for value in image {
            value.encode(out);
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<(Vec<Step>, BTreeSet<String>), Malformed> {
    let mut reader = Reader::new(bytes);
    let mut shapes = Vec::new();
    for _ in 0..reader.count(3, "number of shapes")? {
        shapes.push(Arc::new(read_shape(&mut reader)?));
    }
    let mut steps = Vec::new();
    for _ in 0..reader.count(2, "number of steps")? {
        steps.push(read_step(&mut reader, &shapes)?);
    }
    let mut tables_read = BTreeSet::new();
    for _ in 0..reader.count(1, "number of tables read")? {
        tables_read.insert(reader.text("table read")?);
    }
    reader.finish("trailing bytes after changes")?;
    Ok((steps, tables_read))
}

fn read_shape(reader: &mut Reader<'_>) -> Result<TableShape, Malformed> {
    let name = reader.text("table name")?;
    let mut columns = Vec::new();
    for _ in 0..reader.count(1, "number of columns")? {
        columns.push(reader.text("column name")?);
    }
    let position = |reader: &mut Reader<'_>| {
        let value = reader.varint("key column")?;
        match usize::try_from(value) {
            Ok(position) if position < columns.len() => Ok(position),
            _ => reader.fail("key column"),
        }
    };
    let key = match reader.byte("kind of a key")? {
        0 => TableKey::Rowid,
        1 => TableKey::Integer(position(reader)?),
        2 => {
            let mut positions = Vec::new();
            for _ in 0..reader.count(1, "number of key columns")? {
                positions.push(position(reader)?);
            }
            TableKey::Columns(positions)
        }
        _ => return reader.fail("kind of a key"),
    };
    Ok(TableShape { name, columns, key })
}

fn read_step(reader: &mut Reader<'_>, shapes: &[Arc<TableShape>]) -> Result<Step, Malformed> {
    match reader.byte("kind of a step")? {
        ROWS => {
            let count = reader.count(3, "number of rows")?;
            let mut rows = Vec::new();
            for _ in 0..count {
                rows.push(read_row(reader, shapes)?);
            }
            Ok(Step::Rows(rows))
        }
        SCHEMA => Ok(Step::Schema(reader.text("schema statement")?)),
        REBUILD => Ok(Step::Rebuild(reader.text("table to rebuild")?)),
        OPAQUE => {
            let table = reader.text("opaque table")?;
            Ok(Step::Opaque { table, reason: reader.text("reason")? })
        }
        DROPS => {
            let table = reader.text("table that loses columns")?;
            let mut columns = Vec::new();
            for _ in 0..reader.count(1, "number of dropped columns")? {
                columns.push(reader.text("dropped column")?);
            }
            let sum = u64::from_le_bytes(reader.array("sum of dropped columns")?);
            Ok(Step::Drops(Fingerprint { table, columns, sum }))
        }
        _ => reader.fail("kind of a step"),
    }
}

fn read_row(reader: &mut Reader<'_>, shapes: &[Arc<TableShape>]) -> Result<RowChange, Malformed> {
    let number = usize::try_from(reader.varint("shape of a row")?).ok();
    let Some(table) = number.and_then(|number| shapes.get(number)) else {
        return reader.fail("shape of a row");
    };
    let kind = reader.byte("kind of a change")?;
    let identity = match reader.byte("kind of an identity")? {
        0 => RowIdentity::Rowid(unzigzag(reader.varint("rowid")?)),
        1 => {
            let count = reader.count(1, "number of key values")?;
            let mut values = Vec::new();
            for _ in 0..count {
                values.push(Value::read(reader)?);
            }
            RowIdentity::Key(values)
        }
        _ => return reader.fail("kind of an identity"),
    };
    let mut image = || {
        let mut values = Vec::with_capacity(table.columns.len());
        for _ in 0..table.columns.len() {
            values.push(Value::read(reader)?);
        }
        Ok(Some(values))
    };
    let (old, new) = match kind {
        0 => (None, image()?),
        1 => (image()?, image()?),
        2 => (image()?, None),
        _ => return reader.fail("kind of a change"),
    };
    Ok(RowChange { table: Arc::clone(table), identity, old, new })
}
