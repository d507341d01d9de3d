//! Manifests and lists as the public `iceberg` crate writes them.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, Literal, ManifestListWriter,
    ManifestWriterBuilder, NestedField, PartitionSpec, PrimitiveType, Schema, Struct, Transform,
    Type,
};

use super::*;

/// Files in memory are written without waiting for anything.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("memory does not wait"),
    }
}

#[test]
fn what_the_iceberg_crate_writes_is_read() {
    let schema = Schema::builder().with_fields(vec![
        NestedField::required(1, "at", Type::Primitive(PrimitiveType::Timestamp)).into(),
        NestedField::optional(2, "region", Type::Primitive(PrimitiveType::String)).into(),
    ]);
    let schema = std::sync::Arc::new(schema.build().expect("a sound schema"));
    let spec = PartitionSpec::builder(schema.clone())
        .with_spec_id(3)
        .add_partition_field("at", "at_month", Transform::Month)
        .and_then(|spec| spec.add_partition_field("region", "a region", Transform::Identity))
        .and_then(|spec| spec.build())
        .expect("a sound spec");
    let io = FileIO::new_with_memory();
    let bytes = |path: &str| {
        let input = io.new_input(path).expect("memory has it");
        now(input.read()).expect("memory has it")
    };
    for version in 1..=3 {
        let (path, list_path) =
            (format!("memory://t/m{version}"), format!("memory://t/l{version}"));
        let output = io.new_output(&path).expect("memory takes it");
        let builder = ManifestWriterBuilder::new(output, Some(9), schema.clone(), spec.clone());
        let mut writer = match version {
            1 => builder.build_v1(),
            2 => builder.build_v2_data(),
            _ => builder.build_v3_data(),
        };
        let tuple = [Some(Literal::int(648)), Some(Literal::string("e/u"))];
        let file = DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path("s3://b/t/data/a#%2F é.parquet".into())
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter(tuple))
            .partition_spec_id(3)
            .record_count(11)
            .file_size_in_bytes(22)
            .build()
            .expect("a sound file");
        writer.add_file(file.clone(), 5).expect("it is of the spec");
        writer.add_existing_file(file, 8, 4, Some(4)).expect("it is of the spec");
        let written = now(writer.write_manifest_file()).expect("memory takes it");
        let manifest = parse(&bytes(&path));
        let found: Vec<File<'_>> = manifest.files().collect();
        assert_eq!(found[0].path.to_string(), "s3://b/t/data/a#%2F é.parquet");
        assert_eq!((found[0].records, found[0].size), (11, 22));
        assert_eq!((found[0].status, found[1].status), (FileStatus::Added, FileStatus::Existing));
        assert_eq!(&*found[0].partition.text, "at_month=2024-01/a region=e%2Fu");
        assert_eq!((found[0].partition.spec_id, found[1].snapshot_id), (3, Some(8)));
        let output = io.new_output(&list_path).expect("memory takes it");
        let output = now(output.writer()).expect("memory takes it");
        let mut writer = match version {
            1 => ManifestListWriter::v1(output, 9, None),
            2 => ManifestListWriter::v2(output, 9, None, 7),
            _ => ManifestListWriter::v3(output, 9, None, 7, Some(0)),
        };
        writer.add_manifests([written].into_iter()).expect("it is sound");
        now(writer.close()).expect("memory takes it");
        let list = ManifestList::parse(&list_path, &bytes(&list_path)).expect("a sound list");
        let [listed] = &list.manifests[..] else { panic!("one was written") };
        assert_eq!((&*listed.path, listed.length), (&*path, manifest.length));
        assert_eq!((listed.added_files, listed.existing_files), (Some(1), Some(1)));
        assert_eq!(listed.added_snapshot_id, Some(9));
        assert_eq!(listed.sequence_number, if version > 1 { 7 } else { 0 });
    }
}
