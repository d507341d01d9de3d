//! One reading of the table: TPC-H's sixth question, asked of the `iceberg` crate's scan. The table
//! is loaded anew each time, so that nothing is remembered but by the node.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use futures::TryStreamExt;
use iceberg::expr::{Predicate, Reference};
use iceberg::spec::Datum;
use iceberg::{Catalog, Result};
use indicatif::ProgressBar;

use crate::sample;

/// Data files read at a time, as a small query engine would.
const FILES_IN_FLIGHT_MAX: usize = 4;

/// What a reading found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Rows that passed the filter.
    pub(crate) rows: u64,
    /// Σ price × discount, in ten-thousandths.
    pub(crate) revenue: i128,
}

/// Reads the table through `catalog`'s storage; `progress` moves with the rows.
pub(crate) async fn read(catalog: &dyn Catalog, progress: &ProgressBar) -> Result<Answer> {
    let table = catalog.load_table(&sample::table_name()).await?;
    let scan = table
        .scan()
        .select(["l_extendedprice", "l_discount"])
        .with_filter(question()?)
        .with_data_file_concurrency_limit(FILES_IN_FLIGHT_MAX)
        .build()?;
    let mut batches = scan.to_arrow().await?;
    let mut answer = Answer::default();
    while let Some(batch) = batches.try_next().await? {
        add(&mut answer, &batch);
        progress.set_position(answer.rows);
    }
    Ok(answer)
}

/// What was shipped in 1994 at a discount of 5 to 7 hundredths, fewer than 24 at a time.
fn question() -> Result<Predicate> {
    let shipped = Reference::new("l_shipdate")
        .greater_than_or_equal_to(Datum::date_from_str("1994-01-01")?)
        .and(Reference::new("l_shipdate").less_than(Datum::date_from_str("1995-01-01")?));
    let discounted = Reference::new("l_discount")
        .greater_than_or_equal_to(Datum::decimal_from_str("0.05")?)
        .and(Reference::new("l_discount").less_than_or_equal_to(Datum::decimal_from_str("0.07")?));
    let few = Reference::new("l_quantity").less_than(Datum::decimal_from_str("24.00")?);
    Ok(shipped.and(discounted).and(few))
}

fn add(answer: &mut Answer, batch: &RecordBatch) {
    let prices = batch.column(0).as_primitive::<Decimal128Type>();
    let discounts = batch.column(1).as_primitive::<Decimal128Type>();
    answer.rows += batch.num_rows() as u64;
    let products =
        prices.values().iter().zip(discounts.values()).map(|(price, share)| price * share);
    answer.revenue += products.sum::<i128>();
}
