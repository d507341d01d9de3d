//! A table of a million files over a thousand manifests: what its states and changes cost. Figures
//! belong to an optimised build: `cargo test --release -p nilas-iceberg million -- --ignored --nocapture`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use nilas_base::Clock;
use serde_json::{Value, json};

use super::model::supplied;
use super::*;
use crate::manifest::sample::{SampleFile, SampleListed, SampleManifest, write_list};
use crate::residents;

const MANIFESTS: i64 = 1000;
const FILES: i64 = 1000;

#[derive(Default)]
struct Large {
    objects: BTreeMap<String, Vec<u8>>,
    snapshots: Vec<Value>,
}

impl Large {
    fn manifest(&mut self, number: i64, status: i32) -> SampleListed {
        let moved = (status == 0).then_some(1);
        let files: Vec<SampleFile> = (0..FILES)
            .map(|file| SampleFile {
                status,
                snapshot_id: moved,
                sequence_number: moved,
                ..SampleFile::data(&format!(
                    "s3://warehouse/database/table/data/day={number}/\
                     {file:05}-7-45268d71-54eb-476c-b42c-{:012x}-00001.parquet",
                    number * FILES + file
                ))
            })
            .collect();
        let bytes = SampleManifest::of_version(2).write(&files);
        let path = format!("/t/metadata/{}-m{number}.avro", self.objects.len());
        let length = bytes.len() as i64;
        self.objects.insert(path.clone(), bytes);
        let counts = if status == 1 { [FILES as i32, 0, 0] } else { [0, FILES as i32, 0] };
        let snapshot_id = self.snapshots.len() as i64 + 1;
        SampleListed { path, length, deletes: false, sequence_number: 1, snapshot_id, counts }
    }

    fn commit(&mut self, manifests: &[SampleListed]) {
        let id = self.snapshots.len() as i64 + 1;
        let list = format!("/t/metadata/snap-{id}.avro");
        self.objects.insert(list.clone(), write_list(2, manifests));
        self.snapshots.push(json!({"snapshot-id": id, "sequence-number": id,
            "parent-snapshot-id": if id > 1 { Some(id - 1) } else { None },
            "manifest-list": list, "summary": {"operation": "append"}}));
    }

    fn state(&self, old: Option<&TableState>) -> TableState {
        let document = json!({"format-version": 2, "location": "/t",
            "current-snapshot-id": self.snapshots.len(), "snapshots": self.snapshots});
        supplied("/t/m.json", document.to_string().as_bytes(), old, &self.objects)
    }
}

fn timed<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let clock = Clock::system();
    let from = clock.now();
    let result = run();
    let took: Duration = clock.now().since(from);
    println!("{name}: {took:?}");
    result
}

#[test]
#[ignore = "a measurement"]
fn a_million_files() {
    let mut large = Large::default();
    let mut manifests: Vec<_> = (0..MANIFESTS).map(|number| large.manifest(number, 1)).collect();
    large.commit(&manifests);
    let first = timed("all read", || large.state(None));
    let bytes: usize = first.manifests().map(|(_, manifest)| manifest.memory_bytes()).sum();
    println!("{} bytes a file", bytes / (MANIFESTS * FILES) as usize);
    manifests.push(large.manifest(MANIFESTS, 1));
    large.commit(&manifests);
    let second = timed("state after an append", || large.state(Some(&first)));
    let change = timed("change of an append", || Change::between(&first, &second));
    assert_eq!((change.added.len(), change.removed.len()), (FILES as usize, 0));
    let moved: Vec<_> = (0..=MANIFESTS).map(|number| large.manifest(number, 0)).collect();
    large.commit(&moved);
    let third = large.state(Some(&second));
    let change = timed("change of a rewrite of all manifests", || Change::between(&second, &third));
    assert_eq!((change.added.len(), change.removed.len()), (0, 0));
    let mut count = 0_u64;
    let shown = timed("residents shown", || {
        residents::visit(&third, Some(&change), |_| {
            count += 1;
            ControlFlow::Continue(())
        })
    });
    assert!(shown.is_continue() && count > (MANIFESTS * FILES) as u64);
}
