//! The sample: the `lineitem` table of TPC-H, rows by `tpchgen`, written as Iceberg by the
//! `iceberg` crate's own writer. One data file a part, all in one snapshot.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{DataFile, DataFileFormat, NestedField, PrimitiveType, Schema, Type};
use iceberg::table::Table;
use iceberg::transaction::{ApplyTransactionAction, Transaction};
use iceberg::writer::base_writer::data_file_writer::DataFileWriterBuilder;
use iceberg::writer::file_writer::ParquetWriterBuilder;
use iceberg::writer::file_writer::location_generator::{
    DefaultFileNameGenerator, DefaultLocationGenerator,
};
use iceberg::writer::file_writer::rolling_writer::RollingFileWriterBuilder;
use iceberg::writer::{IcebergWriter, IcebergWriterBuilder};
use iceberg::{Catalog, NamespaceIdent, Result, TableCreation, TableIdent};
use indicatif::ProgressBar;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{LineItem, LineItemGenerator};

use crate::reading::Answer;

/// TPC-H's scale: 0.1 makes 600 thousand rows in about 20 MB.
const SCALE: f64 = 0.1;
/// Data files of the table.
pub(crate) const FILES: i32 = 8;
/// Rows built at a time.
const BATCH_ROWS_MAX: usize = 8192;
/// Rows of a row group: several in each file, so that a scan has something to skip.
const ROW_GROUP_ROWS_MAX: usize = 20_000;

/// Where the table is.
pub(crate) fn table_name() -> TableIdent {
    TableIdent::new(NamespaceIdent::new("tpch".into()), "lineitem".into())
}

/// Creates and fills the table; `progress` moves by one for each data file. The answer is what a
/// reading must find, worked out from the rows themselves.
pub(crate) async fn write(catalog: &dyn Catalog, progress: &ProgressBar) -> Result<Answer> {
    let name = table_name();
    catalog.create_namespace(name.namespace(), Default::default()).await?;
    let creation = TableCreation::builder().name(name.name().into()).schema(schema()?).build();
    let table = catalog.create_table(name.namespace(), creation).await?;
    let mut files = Vec::new();
    let mut expected = Answer::default();
    for part in 1..=FILES {
        files.extend(write_file(&table, part, &mut expected).await?);
        progress.inc(1);
    }
    let transaction = Transaction::new(&table);
    let append = transaction.fast_append().add_data_files(files);
    append.apply(transaction)?.commit(catalog).await.map(|_| expected)
}

async fn write_file(table: &Table, part: i32, expected: &mut Answer) -> Result<Vec<DataFile>> {
    let schema = Arc::clone(table.metadata().current_schema());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
        .build();
    let files = RollingFileWriterBuilder::new_with_default_file_size(
        ParquetWriterBuilder::new(properties, schema),
        table.file_io().clone(),
        DefaultLocationGenerator::new(table.metadata())?,
        DefaultFileNameGenerator::new(format!("part-{part:02}"), None, DataFileFormat::Parquet),
    );
    let mut writer = DataFileWriterBuilder::new(files).build(None).await?;
    let mut rows = LineItemGenerator::new(SCALE, part, FILES).iter();
    loop {
        let batch: Vec<LineItem<'_>> = rows.by_ref().take(BATCH_ROWS_MAX).collect();
        if batch.is_empty() {
            return writer.close().await;
        }
        batch.iter().for_each(|row| expect(expected, row));
        writer.write(record_batch(table, &batch)?).await?;
    }
}

/// 1994, in days since 1970.
const DAYS_OF_1994: std::ops::Range<i32> = 8766..9131;

/// Adds a row that the question asks for: see `reading`.
fn expect(expected: &mut Answer, row: &LineItem<'_>) {
    let discount = row.l_discount.into_inner();
    let shipped = DAYS_OF_1994.contains(&row.l_shipdate.to_unix_epoch());
    if shipped && (5..=7).contains(&discount) && row.l_quantity < 24 {
        expected.rows += 1;
        expected.revenue += i128::from(row.l_extendedprice.into_inner() * discount);
    }
}

/// The table's columns: name, type, and how a row's value becomes Arrow's.
type Column = (&'static str, PrimitiveType, fn(&[LineItem<'_>]) -> ArrayRef);

const MONEY: PrimitiveType = PrimitiveType::Decimal { precision: 15, scale: 2 };

#[rustfmt::skip]
const COLUMNS: [Column; 16] = [
    ("l_orderkey", PrimitiveType::Long, |rows| longs(rows, |row| row.l_orderkey)),
    ("l_partkey", PrimitiveType::Long, |rows| longs(rows, |row| row.l_partkey)),
    ("l_suppkey", PrimitiveType::Long, |rows| longs(rows, |row| row.l_suppkey)),
    ("l_linenumber", PrimitiveType::Int, |rows| Arc::new(rows.iter().map(|row| Some(row.l_linenumber)).collect::<Int32Array>())),
    ("l_quantity", MONEY, |rows| money(rows, |row| TPCHDecimal(row.l_quantity * 100))),
    ("l_extendedprice", MONEY, |rows| money(rows, |row| row.l_extendedprice)),
    ("l_discount", MONEY, |rows| money(rows, |row| row.l_discount)),
    ("l_tax", MONEY, |rows| money(rows, |row| row.l_tax)),
    ("l_returnflag", PrimitiveType::String, |rows| Arc::new(rows.iter().map(|row| Some(row.l_returnflag)).collect::<StringArray>())),
    ("l_linestatus", PrimitiveType::String, |rows| Arc::new(rows.iter().map(|row| Some(row.l_linestatus)).collect::<StringArray>())),
    ("l_shipdate", PrimitiveType::Date, |rows| dates(rows, |row| row.l_shipdate)),
    ("l_commitdate", PrimitiveType::Date, |rows| dates(rows, |row| row.l_commitdate)),
    ("l_receiptdate", PrimitiveType::Date, |rows| dates(rows, |row| row.l_receiptdate)),
    ("l_shipinstruct", PrimitiveType::String, |rows| Arc::new(rows.iter().map(|row| Some(row.l_shipinstruct)).collect::<StringArray>())),
    ("l_shipmode", PrimitiveType::String, |rows| Arc::new(rows.iter().map(|row| Some(row.l_shipmode)).collect::<StringArray>())),
    ("l_comment", PrimitiveType::String, |rows| Arc::new(rows.iter().map(|row| Some(row.l_comment)).collect::<StringArray>())),
];

fn schema() -> Result<Schema> {
    let fields = COLUMNS.iter().zip(1..).map(|((name, kind, _), id)| {
        Arc::new(NestedField::required(id, *name, Type::Primitive(kind.clone())))
    });
    Schema::builder().with_fields(fields).build()
}

fn record_batch(table: &Table, rows: &[LineItem<'_>]) -> Result<RecordBatch> {
    let schema = schema_to_arrow_schema(table.metadata().current_schema())?;
    let columns = COLUMNS.iter().map(|(_, _, column)| column(rows)).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

fn longs(rows: &[LineItem<'_>], value: fn(&LineItem<'_>) -> i64) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(value(row))).collect::<Int64Array>())
}

fn dates(rows: &[LineItem<'_>], value: fn(&LineItem<'_>) -> TPCHDate) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(value(row).to_unix_epoch())).collect::<Date32Array>())
}

fn money(rows: &[LineItem<'_>], value: fn(&LineItem<'_>) -> TPCHDecimal) -> ArrayRef {
    let cents = rows.iter().map(|row| Some(i128::from(value(row).into_inner())));
    let cents = cents.collect::<Decimal128Array>();
    Arc::new(cents.with_precision_and_scale(15, 2).expect("TPC-H's own precision"))
}
