//! What is written of a recording.

use super::*;

const COLUMNS: &str = "object,length,start,end";

#[test]
fn objects_are_numbered_by_their_first_reads() {
    let mut recording = Recording::new(Vec::new());
    recording.take(&format!("{COLUMNS}\n900,10,0,10\n7,5,1,2\n"), 0).expect("memory");
    recording.take(&format!("{COLUMNS}\n900,10,3,4\n"), 2).expect("memory");
    assert_eq!(
        String::from_utf8(recording.out.clone()).expect("text"),
        format!("{COLUMNS}\n0,10,0,10\n1,5,1,2\n0,10,3,4\n")
    );
    let told = recording.told();
    assert!(told.starts_with("3 reads of 2 objects; 2 more were lost"), "{told}");
}
