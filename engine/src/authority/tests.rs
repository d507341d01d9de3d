//! Which objects lie under the roots of tables. What shards do when they hear of an index is shown with
//! whole nodes, before a real catalog.

use super::*;

fn roots(of: &[(&str, &str)]) -> TableRoots {
    TableRoots::new(of.iter().map(|(bucket, root)| ((*bucket).into(), (*root).into())))
}

#[test]
fn a_root_holds_what_lies_below_it_in_its_bucket() {
    let roots = roots(&[("lake", "db/t/"), ("lake", "db/t/inner/"), ("pond", ""), ("lake", "a/")]);
    for (bucket, key, is_below) in [
        ("lake", "db/t/data/x", true),
        ("lake", "db/t/inner/y", true),
        ("lake", "db/t/z", true),
        ("lake", "db/t2/data/x", false),
        ("lake", "db/", false),
        ("lake", "a/b", true),
        ("lake", "", false),
        ("pond", "anything", true),
        ("sea", "db/t/data/x", false),
    ] {
        assert_eq!(roots.contains(NameRef { bucket, key }), is_below, "{bucket}/{key}");
    }
    assert!(!TableRoots::default().contains(NameRef { bucket: "lake", key: "db/t/x" }));
}

proptest::proptest! {
    #[test]
    fn whether_it_is_below_is_what_a_look_at_each_root_says(
        keys in proptest::collection::vec("[ab/]{0,4}", 1..8),
        key in "[ab/]{0,6}",
    ) {
        let folders: Vec<String> = keys.iter().map(|key| format!("{key}/")).collect();
        let roots = roots(&folders.iter().map(|root| ("b", &**root)).collect::<Vec<_>>());
        let expected = folders.iter().any(|root| key.starts_with(root.as_str()));
        let name = NameRef { bucket: "b", key: &key };
        proptest::prop_assert_eq!(roots.contains(name), expected);
    }
}
