//! Changes of a credentials file, each looked at through the node's own eyes.

use std::os::unix::fs::PermissionsExt;

use clap::Parser;
use nilas_engine::config::{Mode, read_credentials_file};
use tempfile::TempDir;

use super::command::CredentialArguments;
use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: CredentialArguments,
}

/// A folder with a credentials file of this text.
fn file(text: &str) -> (CredentialsFile, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = CredentialsFile::new(folder.path().join("credentials.toml"));
    if !text.is_empty() {
        std::fs::write(file.path(), text).expect("the folder can be written");
        set_mode(file.path(), 0o600);
    }
    (file, folder)
}

fn set_mode(path: &Path, mode: u32) {
    let set = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    set.expect("it is ours");
}

fn text(file: &CredentialsFile) -> String {
    std::fs::read_to_string(file.path()).expect("a file")
}

/// Runs a command line; gives what it prints.
fn run(file: &CredentialsFile, line: &[&str]) -> Result<String, String> {
    let parsed = Line::try_parse_from([&["credential"], line].concat());
    let parsed = parsed.unwrap_or_else(|error| panic!("{error}"));
    parsed.arguments.carry_out(file).map(|changed| changed.value)
}

fn create(file: &CredentialsFile, access_key: &str) -> Result<ClientCredential, String> {
    let item = NewItem { access_key: Some(access_key.to_owned()), ..NewItem::default() };
    file.create(&item).map(|changed| changed.value)
}

const COMMENTED: &str = "# The lake's clients.

# Alice, of the loaders
[[credentials]]
secret_key = \"alices-secret\" # renewed in spring
access_key = \"alice\"
buckets = [\"lake\"]

# Bob
[[credentials]]
access_key = \"bob\"
secret_key = \"bobs-secret\"
# the end
";

#[test]
fn a_new_file_is_its_owners_and_holds_what_was_asked_for() {
    let (file, folder) = file("");
    let secret = folder.path().join("origin-secret");
    std::fs::write(&secret, "the-origins\n").expect("a file");
    let line = "create --json --mode read_only --bucket lake --bucket lab-* --prefix mine/ \
                --requests-per-second 10 --bytes-per-second 5MiB --requests-in-flight 3 \
                --origin-access-key AK --origin-secret-key-file";
    let mut line: Vec<&str> = line.split(' ').collect();
    line.push(secret.to_str().expect("text"));
    let told: serde_json::Value =
        serde_json::from_str(&run(&file, &line).expect("it is made")).expect("JSON");
    let found = read_credentials_file(file.path()).expect("a node can use it");
    assert_eq!(found.len(), 1);
    assert_eq!(told["access_key"], found[0].access_key);
    assert_eq!(told["secret_key"], found[0].secret_key.expose());
    assert_eq!(found[0].scope.mode, Mode::ReadOnly);
    let buckets: Vec<String> = found[0].scope.buckets.iter().map(ToString::to_string).collect();
    assert_eq!(buckets, ["lake", "lab-*"]);
    assert_eq!(found[0].scope.prefixes, ["mine/"]);
    assert_eq!(found[0].limits.requests_per_second_max, Some(10));
    assert_eq!(found[0].limits.bytes_per_second_max, Some(5 << 20));
    assert_eq!(found[0].limits.requests_in_flight_max, Some(3));
    let origin = found[0].origin_key.as_ref().expect("a key of its own");
    assert_eq!((origin.access_key.as_str(), origin.secret_key.as_str()), ("AK", "the-origins"));
    let mode = std::fs::metadata(file.path()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn comments_and_order_stay_through_every_change() {
    let (file, _folder) = file(COMMENTED);
    create(&file, "carol").expect("it is made");
    let made = text(&file);
    assert!(made.starts_with(COMMENTED), "{made}");
    let new = file.rotate("alice").expect("it is there").value;
    let secret = new.secret_key.expose();
    let rotated = made.replace("\"alices-secret\"", &format!("\"{secret}\""));
    assert_eq!(text(&file), rotated, "nothing but the secret");
    assert!(rotated.contains("# renewed in spring"));
    file.revoke("alice").expect("it is there");
    let left = text(&file);
    assert!(left.starts_with("# The lake's clients.\n\n# Bob\n[[credentials]]\n"), "{left}");
    assert!(!left.contains("Alice") && left.contains("# the end"), "{left}");
    file.revoke("carol").expect("it is there");
    file.revoke("bob").expect("it is there");
    let left = text(&file);
    assert!(left.contains("# the end") && !left.contains("[["), "{left}");
    assert!(read_credentials_file(file.path()).expect("a node can use it").is_empty());
    create(&file, "dora").expect("it is made");
    assert_eq!(read_credentials_file(file.path()).expect("a node can use it").len(), 1);
}

#[test]
fn a_list_shows_what_each_may_do_and_no_secret() {
    let limited = "[[credentials]]\naccess_key = \"loader\"\nsecret_key = \"loaders-secret\"\n\
                   mode = \"read_write\"\nrequests_per_second_max = 7\nbytes_per_second_max = \"1MiB\"\n\
                   origin_access_key = \"AK\"\norigin_secret_key = \"origins-secret\"\n";
    let (file, _folder) = file(&format!("{COMMENTED}{limited}"));
    let (people, json) = (run(&file, &["list"]), run(&file, &["list", "--json"]));
    let (people, json) = (people.expect("a table"), json.expect("JSON"));
    assert!(!people.contains("secret") && !json.contains("secret"), "{people}\n{json}");
    assert_eq!(people.lines().count(), 4, "{people}");
    assert!(people.contains("7 requests/s, 1MiB bytes/s"), "{people}");
    let items: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let keys = |name: &str| -> Vec<&str> {
        items.as_array().expect("items").iter().filter_map(|item| item[name].as_str()).collect()
    };
    assert_eq!(keys("access_key"), ["alice", "bob", "loader"]);
    assert_eq!(keys("mode"), ["admin", "admin", "read_write"]);
    assert_eq!(keys("origin_access_key"), ["AK"]);
}

#[test]
fn a_secret_that_stood_elsewhere_moves_into_the_file() {
    let (file, folder) = file("");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "of-a-file").expect("a file");
    let item = format!(
        "[[credentials]]\naccess_key = \"a\"\nsecret_key_file = {:?}\nmode = \"read_only\"\n",
        secret.to_str().expect("text")
    );
    std::fs::write(file.path(), item).expect("a file");
    set_mode(file.path(), 0o600);
    let rotated = file.rotate("a").expect("it is there");
    assert!(rotated.warnings[0].contains("stood in the file"), "{:?}", rotated.warnings);
    let found = read_credentials_file(file.path()).expect("a node can use it");
    assert_eq!(found[0].secret_key, rotated.value.secret_key);
    assert_eq!(found[0].scope.mode, Mode::ReadOnly);
    assert_eq!(std::fs::read_to_string(&secret).expect("it is left alone"), "of-a-file");
}

#[test]
fn what_cannot_be_done_is_told_with_its_cure_and_changes_nothing() {
    let (file, folder) = file(COMMENTED);
    for (line, cure) in [
        (&["rotate", "nobody"][..], "credential list"),
        (&["revoke", "nobody"], "credential list"),
        (&["create", "--access-key", "bob"], "rotate or revoke it"),
        (&["create", "--access-key", "a/b"], "without / and comma"),
        (&["create", "--bytes-per-second", "5"], "bytes_per_second_max"),
        (&["create", "--origin-access-key", "a", "--origin-secret-key-file", "/none"], "no file"),
    ] {
        let error = run(&file, line).expect_err("it cannot be done");
        assert!(error.contains(cure), "{line:?}: {error}");
        assert!(!error.contains("s-secret") && !error.contains(".new"), "{line:?}: {error}");
        assert_eq!(text(&file), COMMENTED, "{line:?}");
    }
    let none = CredentialsFile::new(folder.path().join("none.toml"));
    assert!(none.revoke("bob").expect_err("no file").contains("credential create"));
    assert!(!none.path().exists());
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1, "nothing is left beside it");
}

#[test]
fn a_broken_file_is_told_with_its_line_and_left_alone() {
    let broken = format!("{COMMENTED}secret_key = bare-secret\n");
    let (file, _folder) = file(&broken);
    for line in [&["create"][..], &["rotate", "bob"], &["revoke", "bob"], &["list"]] {
        let error = run(&file, line).expect_err("it is broken");
        assert!(error.contains("credentials.toml:14"), "{error}");
        assert!(!error.contains("bare-secret"), "{error}");
        assert_eq!(text(&file), broken);
    }
}

#[test]
fn mode_and_links_stay_and_what_others_can_read_is_told() {
    let (file, folder) = file(COMMENTED);
    set_mode(file.path(), 0o644);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(file.path(), &link).expect("a link");
    let changed = CredentialsFile::new(&link).revoke("bob").expect("it is there");
    assert!(changed.warnings[0].contains("others can read"), "{:?}", changed.warnings);
    assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert!(!text(&file).contains("bob"));
    let mode = std::fs::metadata(file.path()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    set_mode(file.path(), 0o640);
    assert!(file.rotate("alice").expect("it is there").warnings.is_empty());
}

#[test]
fn of_many_who_change_it_at_once_none_loses_an_item() {
    let (file, _folder) = file(COMMENTED);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let file = &file;
            scope.spawn(move || {
                for item in 0..10 {
                    create(file, &format!("client-{thread}-{item}")).expect("it is made");
                    if item % 2 == 0 {
                        file.revoke(&format!("client-{thread}-{item}")).expect("it is there");
                    }
                }
            });
        }
    });
    let found = read_credentials_file(file.path()).expect("a node can use it");
    assert_eq!(found.len(), 2 + 4 * 5);
}

#[test]
fn a_line_that_is_misused_is_refused_before_anything_is_done() {
    for line in [
        &["create", "--mode", "write"][..],
        &["create", "--requests-per-second", "0"],
        &["create", "--origin-access-key", "a"],
        &["create", "--bucket", ""],
        &["rotate"],
        &["remove", "a"],
    ] {
        let error = Line::try_parse_from([&["credential"], line].concat()).err().expect("misuse");
        assert_eq!(error.exit_code(), 2, "{line:?}");
    }
    let parsed = Line::try_parse_from(["credential", "list"]).expect("a right one");
    let named = |wanted: &'static str| {
        move |name: &str| (name == wanted).then(|| std::ffi::OsString::from("of-variable"))
    };
    for variable in ["NILAS_CREDENTIALS_FILE", "NILAS_AUTH_CREDENTIALS_FILE"] {
        let file = parsed.arguments.file(named(variable)).expect("it is named");
        assert_eq!(file.path(), Path::new("of-variable"));
    }
    assert!(parsed.arguments.file(named("PATH")).is_none());
}
