//! How fast manifests are read, here and as generic values by apache-avro. Figures belong to an
//! optimised build: `cargo test --release -p nilas-iceberg speed -- --ignored --nocapture`.

use nilas_base::Clock;

use super::*;

/// Entries as engines write them, with statistics of twenty columns.
fn typical(codec: Codec) -> Vec<u8> {
    let sample = SampleManifest { codec, columns: 20, ..SampleManifest::of_version(2) };
    let files: Vec<SampleFile> = (0..20_000_u64)
        .map(|number| {
            let day = number / 500;
            SampleFile::data(&format!(
                "s3://warehouse/db/table/data/day={day}/{number:05}-7-45268d71-{number:012x}.parquet"
            ))
        })
        .collect();
    sample.write(&files)
}

fn entries_per_second(bytes: &[u8], read: impl Fn(&[u8]) -> usize) -> u64 {
    let clock = Clock::system();
    let from = clock.now();
    let mut entries = 0;
    while clock.now().since(from).as_millis() < 2000 {
        entries += read(bytes);
    }
    (entries as f64 / clock.now().since(from).as_secs_f64()) as u64
}

#[test]
#[ignore = "a measurement"]
fn speed_of_reading_entries() {
    for codec in codecs() {
        let bytes = typical(codec);
        let here = entries_per_second(&bytes, |bytes| parse(bytes).len());
        let generic = entries_per_second(&bytes, |bytes| {
            apache_avro::Reader::new(bytes).expect("a sound manifest").count()
        });
        println!(
            "{codec:?}: {here} entries/s here, {generic} by apache-avro; {} bytes an entry",
            bytes.len() / 20_000
        );
    }
}
