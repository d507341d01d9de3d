//! Configurations and what comes of them: precedence, the exact error that each bad one gets, and
//! secrets that stay hidden wherever they stand.

use std::io::Write;

use nilas_shards::admission::AdmissionKind;
use nilas_shards::carry_over::CarryOverKind;
use nilas_shards::device::area_budget_min;
use nilas_shards::disk::AreaKind;
use proptest::prelude::*;

use super::*;

const FILE: &str = "nilas.toml";

/// Inputs with `file` as the content of a configuration file, which is called `nilas.toml` in
/// what comes back.
struct Attempt {
    file: Option<String>,
    variables: Vec<(String, String)>,
    arguments: Vec<String>,
}

fn attempt(file: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Attempt {
    Attempt {
        file: (!file.is_empty()).then(|| file.to_owned()),
        variables: variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
    }
}

impl Attempt {
    fn load(&self) -> Result<Config, String> {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join(FILE);
        let mut arguments = self.arguments.clone();
        if let Some(text) = &self.file {
            let mut file = std::fs::File::create(&path).expect("a file can be made");
            file.write_all(text.as_bytes()).expect("a file can be written");
            arguments.extend(["--config".to_owned(), path.display().to_string()]);
        }
        let inputs = Inputs { arguments, variables: self.variables.clone(), cores: 2 };
        match load(&inputs) {
            Ok(Order::Run { config, .. }) => Ok(*config),
            Ok(other) => panic!("not an order to run: {other:?}"),
            Err(errors) => {
                let prefix = format!("{}/", directory.path().display());
                Err(errors.to_string().replace(&prefix, ""))
            }
        }
    }

    fn config(&self) -> Config {
        self.load().expect("this configuration is right")
    }
}

#[test]
fn every_default_is_of_its_kind_and_makes_a_configuration() {
    let config = attempt("", &[], &[]).config();
    assert_eq!(config.server.listen, "127.0.0.1:9000".parse().expect("an address"));
    assert_eq!(config.server.shard_count, 2);
    assert!(config.credentials.is_empty());
    assert!(config.origin.create_directory);
}

#[test]
fn a_flag_wins_over_the_environment_which_wins_over_the_file() {
    let file = "[cache]\ndata_bytes = \"3GiB\"\nmutable_ttl = \"7s\"\nblock_bytes = \"4MiB\"\n";
    let variables = [("NILAS_CACHE_DATA_BYTES", "4GiB"), ("NILAS_CACHE_MUTABLE_TTL", "8s")];
    let config = attempt(file, &variables, &["--cache.data_bytes", "5GiB"]).config();
    assert_eq!(config.cache.data_bytes, 5 << 30);
    assert_eq!(config.cache.mutable_ttl, Duration::from_secs(8));
    assert_eq!(config.cache.block_bytes, 4 << 20);
    assert_eq!(config.cache.metadata_bytes, 256 << 20);
    let told = config.effective_text();
    for line in ["# --cache.data_bytes", "# NILAS_CACHE_MUTABLE_TTL", "nilas.toml:4", "# default"] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
}

#[test]
fn without_a_path_there_is_no_cache_device() {
    assert_eq!(attempt("", &[], &[]).config().disk, None);
    let file = "[disk]\npath = \"/nvme\"\ndata_bytes = \"3TiB\"\n";
    let config = attempt(file, &[], &["--disk.metadata_bytes", "30GiB"]).config();
    let plan = config.device_plan().expect("there is a path");
    assert_eq!((plan.path.to_str(), plan.shards), (Some("/nvme"), 2));
    assert_eq!((plan.data_bytes, plan.metadata_bytes), (3 << 40, 30 << 30));
    assert_eq!((plan.mapping_bytes, plan.block_bytes), (256 << 20, 2 << 20));
}

#[test]
fn policies_are_chosen_by_name_and_without_one_they_are_what_they_were() {
    let device = ["--disk.path", "/nvme"];
    let config = attempt("", &[], &device).config();
    assert_eq!(config.cache.eviction, EvictionKind::WTinyLfu);
    assert_eq!(config.disk.expect("it has a path").policies, AreaPolicies::default());
    let (file, variables) =
        ("[cache]\neviction = \"w-tinylfu\"\n", [("NILAS_DISK_ADMISSION", "second-touch")]);
    let arguments = [&device[..], &["--disk.carry_over", "frequent"]].concat();
    let config = attempt(file, &variables, &arguments).config();
    assert_eq!(config.cache.eviction, EvictionKind::WTinyLfu);
    let (admission, carry_over) = (AdmissionKind::SecondTouch, CarryOverKind::Frequent);
    let policies = config.disk.expect("it has a path").policies;
    assert_eq!(policies, AreaPolicies { admission, carry_over });
}

#[test]
fn the_file_can_be_named_by_the_environment() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(b"[server]\nshards = 1\n").expect("it can be written");
    let path = file.path().display().to_string();
    let config = attempt("", &[("NILAS_CONFIG", &path)], &[]).config();
    assert_eq!(config.server.shard_count, 1);
}

#[test]
fn every_key_can_be_set_by_every_source() {
    for key in KEYS.iter().filter(|key| key.default.is_some_and(|it| !it.is_empty())) {
        let default = key.default.expect("filtered");
        // The local directory's and the S3 origin's keys exclude each other, so only the layers
        // are read here, not what they say together.
        let mut errors = Vec::new();
        let arguments = [format!("--{}={default}", key.dotted())];
        let by_flag = flag::parse(&arguments, &mut errors).settings;
        let variables = [(key.variable(), default.to_owned())];
        let by_variable = environment::parse(&variables, &[], &mut errors);
        let bare = matches!(key.kind, Kind::Boolean | Kind::Count { .. });
        let value = match key.kind {
            Kind::Globs => format!("[{default:?}]"),
            _ if bare => default.to_owned(),
            _ => format!("{default:?}"),
        };
        let (open, close) = key::brackets(key.section);
        let text = format!("{open}{}{close}\n{} = {value}\n", key.section, key.name);
        let by_file = file::parse(FILE.as_ref(), &text, &mut errors);
        assert_eq!(errors, [], "{}", key.dotted());
        let values = [by_flag, by_variable, by_file].map(|settings| {
            settings.named(key.section, key.name).expect("it is set").value.clone()
        });
        assert!(values[0] == values[1] && values[1] == values[2], "{}", key.dotted());
    }
}

/// `(file, variables, arguments, the whole error)`.
type BadCase =
    (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], &'static str);

#[rustfmt::skip]
const BAD: &[BadCase] = &[
    // Kinds.
    ("[cache]\ndata_bytes = 10\n", &[], &[],
     "nilas.toml:2: cache.data_bytes: found the number 10, expected a size with a unit from 1MiB to 1024TiB, such as 64KiB, 2GiB or 1GB"),
    ("", &[("NILAS_CACHE_DATA_BYTES", "10")], &[],
     "NILAS_CACHE_DATA_BYTES: found \"10\", expected a size with a unit from 1MiB to 1024TiB, such as 64KiB, 2GiB or 1GB"),
    ("", &[], &["--cache.data_bytes", "1KiB"],
     "--cache.data_bytes: found \"1KiB\", expected a size with a unit from 1MiB to 1024TiB, such as 64KiB, 2GiB or 1GB"),
    ("", &[], &["--cache.mutable_ttl=5"],
     "--cache.mutable_ttl: found \"5\", expected a duration with a unit from 0s to 1d, such as 30ms, 5s or 15m"),
    ("", &[], &["--cache.block_bytes", "3MiB"],
     "--cache.block_bytes: found \"3MiB\", expected a power of two with a unit from 1MiB to 8MiB, such as 2MiB"),
    ("", &[], &["--ring", "kqueue"],
     "--ring: found \"kqueue\", expected one of auto, io_uring, epoll"),
    ("", &[], &["--listen", "9000"],
     "--listen: found \"9000\", expected an IP address and a port, such as 127.0.0.1:9000"),
    ("", &[], &["--shards", "0"],
     "--shards: found \"0\", expected auto or a whole number from 1 to 1024"),
    ("[server]\nshards = -1\n", &[], &[],
     "nilas.toml:2: server.shards: found the number -1, expected auto or a whole number from 1 to 1024"),
    ("[server]\npin = \"yes\"\n", &[], &[],
     "nilas.toml:2: server.pin: found \"yes\", expected true or false"),
    ("[server]\ndomains = [\"a b\"]\n", &[], &[],
     "nilas.toml:2: server.domains: found \"a b\", expected domain names, such as s3.example.com"),
    ("[buckets]\nallow = \"*\"\n", &[], &[],
     "nilas.toml:2: buckets.allow: found \"*\", expected patterns, such as lake-*"),
    ("[origin]\nendpoint = \"s3.example.com\"\n", &[], &[],
     "nilas.toml:2: origin.endpoint: found \"s3.example.com\", expected http:// or https://, a host and perhaps a port, nothing more, such as https://s3.eu-central-1.amazonaws.com"),
    ("[origin]\nendpoint = \"https://me:hunter2@s3.example.com\"\n", &[], &[],
     "nilas.toml:2: origin.endpoint: found a text with an @, which is not repeated here as a password may be in it, expected http:// or https://, a host and perhaps a port, nothing more, such as https://s3.eu-central-1.amazonaws.com"),
    ("[origin]\nsecret_key = 12345678\n", &[], &[],
     "nilas.toml:2: origin.secret_key: found something else (hidden), expected a secret text that is not empty"),
    ("", &[], &["--server.proxy_protocol", "v1"],
     "--server.proxy_protocol: found \"v1\", expected one of off, v2"),
    ("[server]\nproxy_protocol_from = [\"10.0.0.1/8\"]\n", &[], &[],
     "nilas.toml:2: server.proxy_protocol_from: found \"10.0.0.1/8\", expected networks, such as 10.0.0.0/8, or addresses"),
    ("", &[], &["--server.unix_socket", concat!("/run/nilas/1234567890123456789012345678901234567890/",
     "12345678901234567890123456789012345678901234567890123456789")],
     "--server.unix_socket: found \"/run/nilas/1234567890123456789012345678901234567890/1234567890123456789012345678\"…, expected a path of at most 107 bytes"),
    // Names.
    ("[cache]\ndata_byte = \"1GiB\"\n", &[], &[],
     "nilas.toml:2: there is no key cache.data_byte; did you mean cache.data_bytes?"),
    ("[cache]\nlisten = \"127.0.0.1:1\"\n", &[], &[],
     "nilas.toml:2: there is no key cache.listen; did you mean server.listen?"),
    ("\n[cahce]\n", &[], &[],
     "nilas.toml:2: there is no section cahce; did you mean [cache]?"),
    ("listen = \"127.0.0.1:1\"\n", &[], &[],
     "nilas.toml:1: there is no section listen; did you mean listen under [server]?"),
    ("[log]\nzzzzzzzz = 1\n", &[], &[],
     "nilas.toml:2: there is no key log.zzzzzzzz; [log] has level, format, audit_file"),
    ("", &[("NILAS_CACHE_DATA_BYTE", "1GiB")], &[],
     "environment: there is no variable NILAS_CACHE_DATA_BYTE; did you mean NILAS_CACHE_DATA_BYTES?"),
    ("", &[("NILAS_XYZZY_AND_MORE", "1")], &[],
     "environment: there is no variable NILAS_XYZZY_AND_MORE; nilas-server --help lists them"),
    ("", &[], &["--cahce.data_bytes", "1GiB"],
     "command line: there is no flag --cahce.data_bytes; did you mean --cache.data_bytes?"),
    ("", &[], &["--lisen=127.0.0.1:1"],
     "command line: there is no flag --lisen; did you mean --listen?"),
    ("", &[], &["--chekc"],
     "command line: there is no flag --chekc; did you mean --check?"),
    ("", &[], &["serve"],
     "argument 1: found something that is no flag (not repeated here), expected a flag such as --listen, followed by its value"),
    ("", &[], &["--listen"],
     "--listen: found nothing, expected a value after it"),
    // Shapes.
    ("cache = 3\n", &[], &[],
     "nilas.toml:1: cache: found something else, expected a section, begun by a line [cache]"),
    ("[credentials]\naccess_key = \"a\"\n", &[], &[],
     "nilas.toml:1: credentials: found something else, expected items, each begun by a line [[credentials]], 1024 at most"),
    ("", &[], &["--config", "/nonexistent/nilas.toml"],
     "/nonexistent/nilas.toml: No such file or directory (os error 2); give another file with --config or NILAS_CONFIG"),
    // Conflicts.
    ("", &[], &["--listen", "127.0.0.1:9001"],
     "server.listen = \"127.0.0.1:9001\" (--listen) and server.admin = \"127.0.0.1:9001\" (default) share a port; give one of them another"),
    ("[server]\nunix_socket_mode = \"0600\"\n", &[], &[],
     "server.unix_socket_mode = \"0600\" (nilas.toml:2) is set, but there is no server.unix_socket; set server.unix_socket, or remove server.unix_socket_mode"),
    ("", &[], &["--server.proxy_protocol", "v2", "--server.proxy_protocol_from", ""],
     "server.proxy_protocol_from = [] (--server.proxy_protocol_from) names nobody; name the balancers' networks, or remove it to believe everybody who connects"),
    ("", &[], &["--server.proxy_protocol_from", "10.0.0.0/8"],
     "server.proxy_protocol_from = [\"10.0.0.0/8\"] (--server.proxy_protocol_from) is set, but server.proxy_protocol is off; set server.proxy_protocol, or remove server.proxy_protocol_from"),
    ("", &[], &["--listen", "0.0.0.0:9000"],
     "server.listen = \"0.0.0.0:9000\" (--listen) is beyond loopback, and no credentials are configured; add [[credentials]] with access_key and secret_key to the file, or set NILAS_CREDENTIALS_ACCESS_KEY and NILAS_CREDENTIALS_SECRET_KEY, or listen on 127.0.0.1"),
    ("", &[("NILAS_SERVER_ADMIN", "[::]:9001")], &[],
     "server.admin = \"[::]:9001\" (NILAS_SERVER_ADMIN) is beyond loopback, and no token is configured; set server.admin_token (NILAS_SERVER_ADMIN_TOKEN), or use 127.0.0.1"),
    ("[origin]\nkind = \"s3\"\n", &[], &[],
     "origin.kind = \"s3\" (nilas.toml:2), but there is no origin.endpoint; set origin.endpoint, such as \"https://s3.eu-central-1.amazonaws.com\""),
    ("[origin]\nendpoint = \"http://127.0.0.1:1\"\n", &[], &[],
     "origin.endpoint = \"http://127.0.0.1:1\" (nilas.toml:2) is set, but origin.kind = \"local\" (default); set origin.kind = \"s3\", or remove origin.endpoint"),
    ("[origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\npath = \"d\"\n", &[], &[],
     "origin.path = \"d\" (nilas.toml:4) is set, but origin.kind = \"s3\" (nilas.toml:2); set origin.kind = \"local\", or remove origin.path"),
    ("[origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\naccess_key = \"a\"\n", &[], &[],
     "origin.access_key = \"a\" (nilas.toml:4) stands without origin.secret_key; set origin.secret_key, or remove origin.access_key"),
    ("[origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\nsecret_key = \"hunter2\"\n", &[], &[],
     "origin.secret_key = \"(hidden)\" (nilas.toml:4) stands without origin.access_key; set origin.access_key, or remove origin.secret_key"),
    ("[origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\ncredentials = \"config\"\n", &[], &[],
     "origin.credentials = \"config\" (nilas.toml:4) stands without origin.access_key and origin.secret_key; set origin.access_key and origin.secret_key, or remove origin.credentials"),
    ("[origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\ncredentials = \"anonymous\"\nprofile = \"p\"\n", &[], &[],
     "origin.profile = \"p\" (nilas.toml:5) contradicts origin.credentials = \"anonymous\" (nilas.toml:4); remove one of them"),
    ("[origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\nsession_token = \"hunter2\"\n", &[], &[],
     "origin.session_token = \"(hidden)\" (nilas.toml:4) stands without origin.access_key and origin.secret_key; set origin.access_key and origin.secret_key, or remove origin.session_token"),
    ("[origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\naccess_key = \"a\"\nsecret_key = \"hunter2\"\nprofile = \"p\"\n", &[], &[],
     "origin.access_key = \"a\" (nilas.toml:4) contradicts origin.profile = \"p\" (nilas.toml:6); remove one of them"),
    ("", &[], &["--shards", "64"],
     "cache.metadata_bytes = \"256MiB\" (default) is too little for 64 shards of 4 blocks of 2MiB each; raise it to 512MiB or more, or lower cache.block_bytes or server.shards"),
    ("", &[], &["--shards", "1", "--cache.data_bytes", "1MiB"],
     "cache.data_bytes = \"1MiB\" (--cache.data_bytes) is too little for 1 shard of 4 blocks of 2MiB each; raise it to 8MiB or more, or lower cache.block_bytes or server.shards"),
    ("[cache]\neviction = \"lfu\"\n", &[], &[],
     "nilas.toml:2: cache.eviction: found \"lfu\", expected one of fifo, lru, sieve, s3-fifo, w-tinylfu"),
    ("", &[("NILAS_DISK_ADMISSION", "second_touch")], &["--disk.path", "/nvme"],
     "NILAS_DISK_ADMISSION: found \"second_touch\", expected one of always, second-touch"),
    ("", &[], &["--disk.path", "/nvme", "--disk.carry_over", "hot"],
     "--disk.carry_over: found \"hot\", expected one of never, touched, frequent"),
    ("[disk]\ncarry_over = \"never\"\n", &[], &[],
     "disk.carry_over = \"never\" (nilas.toml:2) is set, but there is no disk.path; set disk.path, or remove disk.carry_over"),
    ("[disk]\ndata_bytes = \"20GiB\"\n", &[], &[],
     "disk.data_bytes = \"20GiB\" (nilas.toml:2) is set, but there is no disk.path; set disk.path, or remove disk.data_bytes"),
    ("", &[("NILAS_DISK_PATH", "/nvme"), ("NILAS_DISK_METADATA_BYTES", "1MiB")], &["--shards", "2"],
     "disk.metadata_bytes = \"1MiB\" (NILAS_DISK_METADATA_BYTES) is too little for 2 shards with blocks of 2MiB; raise it to 64MiB or more, or lower cache.block_bytes or server.shards"),
    ("[disk]\npath = \"/nvme\"\n", &[], &["--disk.mapping_bytes", "1MiB"],
     "disk.mapping_bytes = \"1MiB\" (--disk.mapping_bytes) is too little for 1 shard with blocks of 2MiB; raise it to 16MiB or more, or lower cache.block_bytes or server.shards"),
    ("", &[], &["--disk.path", "/nvme", "--shards", "200", "--cache.metadata_bytes", "4GiB", "--cache.data_bytes", "4GiB"],
     "server.shards = 200 (--shards) is more than the 113 shards that a cache device has room for; lower it, or remove disk.path"),
    ("[disk]\npath = \"/nvme\"\n", &[], &["--shards", "2", "--cache.metadata_bytes", "20MiB"],
     "cache.metadata_bytes = \"20MiB\" (--cache.metadata_bytes) is too little for 2 shards of 4 blocks of 2MiB each and a cache device's tables; raise it to 32MiB or more, or lower cache.block_bytes or server.shards"),
    // Credentials.
    ("[[credentials]]\naccess_key = \"a\"\n", &[], &[],
     "credentials.0 has an access_key but no secret key; set secret_key, secret_key_file or secret_key_env"),
    ("[[credentials]]\nsecret_key = \"hunter2\"\n", &[], &[],
     "credentials.0 has no access_key; set one, or remove the item"),
    ("[[credentials]]\naccess_key = \"a/b\"\nsecret_key = \"hunter2\"\n", &[], &[],
     "nilas.toml:2: credentials.0.access_key: found something else, expected at most 128 visible ASCII characters without / and comma"),
    ("[[credentials]]\naccess_key = \"a\"\nsecret_key = \"hunter2\"\nsecret_key_env = \"V\"\n", &[], &[],
     "credentials.0 has two secret keys: secret_key (nilas.toml:3) and secret_key_env (nilas.toml:4); keep one of them"),
    ("[[credentials]]\naccess_key = \"a\"\nsecret_key_env = \"V\"\n", &[], &[],
     "nilas.toml:3: credentials.0.secret_key_env: found the unset variable V, expected one that holds the secret key and can be read"),
    ("[[credentials]]\naccess_key = \"a\"\nsecret_key_file = \"/nonexistent\"\n", &[], &[],
     "nilas.toml:3: credentials.0.secret_key_file: found the file /nonexistent: No such file or directory (os error 2), expected one that holds the secret key and can be read"),
    ("[[credentials]]\naccess_key = \"a\"\nsecret_key = \"b\"\n[[credentials]]\naccess_key = \"a\"\nsecret_key = \"c\"\n", &[], &[],
     "credentials.1 has the access_key \"a\", which an earlier item has too; give each item a key of its own"),
];

#[test]
fn each_bad_configuration_gets_its_clear_error() {
    for (file, variables, arguments, expected) in BAD {
        let told = attempt(file, variables, arguments).load().expect_err("it is wrong");
        assert_eq!(&told, expected, "{file:?} {variables:?} {arguments:?}");
        assert!(!told.contains("hunter2"), "a secret is told: {told}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let file = "[cache]\ndata_bytes = 1\n[server]\nrnig = \"auto\"\n";
    let told = attempt(file, &[("NILAS_LOG_LEVEL", "loud")], &["--pin"]).load();
    assert_eq!(told.expect_err("it is wrong").lines().count(), 4);
}

#[test]
fn a_syntax_error_names_its_line_and_repeats_none_of_it() {
    for broken in ["secret_key = \"hunter2", "secret_key = hunter2", "hunter2"] {
        let told = attempt(&format!("[origin]\n{broken}\n"), &[], &[]).load();
        let told = told.expect_err("it is not TOML");
        assert!(told.starts_with("nilas.toml:2: this is not TOML: "), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn secret_keys_come_from_files_variables_and_text() {
    let mut secret = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    secret.write_all(b"from-file\n").expect("it can be written");
    let file = format!(
        "[[credentials]]\naccess_key = \"a\"\nsecret_key_file = \"{}\"\n\
         [[credentials]]\naccess_key = \"b\"\nsecret_key_env = \"NILAS_MY_SECRET\"\n",
        secret.path().display()
    );
    let variables = [
        ("NILAS_MY_SECRET", "from-variable"),
        ("NILAS_CREDENTIALS_2_ACCESS_KEY", "c"),
        ("NILAS_CREDENTIALS_2_SECRET_KEY", "outright"),
    ];
    let config = attempt(&file, &variables, &["--listen", "0.0.0.0:1"]).config();
    let secrets: Vec<&str> = config.credentials.iter().map(|it| it.secret_key.expose()).collect();
    assert_eq!(secrets, ["from-file", "from-variable", "outright"]);
}

#[test]
fn variables_that_kubernetes_adds_for_a_service_named_nilas_are_passed_over() {
    let variables = [
        ("NILAS_PORT", "tcp://10.0.0.1:9000"),
        ("NILAS_PORT_9000_TCP", "tcp://10.0.0.1:9000"),
        ("NILAS_PORT_9000_TCP_ADDR", "10.0.0.1"),
        ("NILAS_PORT_9000_TCP_PROTO", "tcp"),
        ("NILAS_SERVICE_HOST", "10.0.0.1"),
        ("NILAS_SERVICE_PORT", "9000"),
        ("NILAS_SERVICE_PORT_S3", "9000"),
        ("NILAS_ADMIN_PORT", "tcp://10.0.0.2:9001"),
    ];
    attempt("", &variables, &[]).config();
}

#[test]
fn auto_uses_no_more_shards_than_the_budgets_feed() {
    let cases = [(1, 1), (2, 2), (3, 3), (4, 3), (16, 15), (512, 32)];
    for (cores, shards) in cases {
        let Ok(Order::Run { config, .. }) = load(&Inputs { cores, ..Inputs::default() }) else {
            panic!("the defaults are right on {cores} cores");
        };
        assert_eq!(config.server.shard_count, shards, "{cores} cores");
    }
}

#[test]
fn auto_uses_no_more_shards_than_the_cache_device_can_be_cut_for() {
    let shards = |mapping_bytes: &str| {
        let arguments = ["--disk.path=/nvme", "--cache.metadata_bytes=1GiB"].map(str::to_owned);
        let mut arguments = arguments.to_vec();
        arguments.push(format!("--disk.mapping_bytes={mapping_bytes}"));
        let Ok(Order::Run { config, .. }) =
            load(&Inputs { arguments, cores: 512, ..Inputs::default() })
        else {
            panic!("{mapping_bytes} are enough for one shard");
        };
        let plan = config.device_plan().expect("there is a path");
        assert!(
            area_budget_min(AreaKind::Mappings, plan.shards, plan.block_bytes)
                <= plan.mapping_bytes
        );
        config.server.shard_count
    };
    // Segments of 4 MiB, of which mappings have four a shard, and metadata eight.
    assert_eq!([shards("16MiB"), shards("256MiB"), shards("10GiB")], [1, 16, 32]);
}

#[test]
fn the_effective_configuration_reads_back_as_toml() {
    let file = "[server]\ndomains = [\"S3.example.com\"]\n[cache]\nimmutable_globs = [\"a/**\"]\n";
    let config = attempt(file, &[], &["--shards", "2"]).config();
    let text = config.effective_text();
    let mut errors = Vec::new();
    let again = file::parse(FILE.as_ref(), &text, &mut errors);
    assert_eq!(errors, []);
    for (id, setting) in config.settings.iter() {
        assert_eq!(again.get(*id).map(|it| &it.value), Some(&setting.value), "{}", id.dotted());
    }
}

fn hidden_everywhere(config: &Config, secret: &str) -> Result<(), TestCaseError> {
    let told = [
        format!("{config:?}"),
        format!("{config:#?}"),
        config.effective_text(),
        config.effective_json().to_string(),
    ];
    for text in told {
        prop_assert!(!text.contains(secret), "{secret} is told in {text}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_secret_is_never_shown(random in "[A-Za-z0-9+/]{12,40}", by_file: bool) {
        let secret = format!("S3cr{random}");
        let file = format!(
            "[server]\nadmin_token = \"{secret}\"\n\
             [origin]\nkind = \"s3\"\nendpoint = \"http://127.0.0.1:1\"\naccess_key = \"k\"\n\
             secret_key = \"{secret}\"\nsession_token = \"{secret}\"\n\
             [[credentials]]\naccess_key = \"a\"\nsecret_key = \"{secret}\"\n"
        );
        let variables = [
            ("NILAS_SERVER_ADMIN_TOKEN", secret.as_str()),
            ("NILAS_ORIGIN_KIND", "s3"),
            ("NILAS_ORIGIN_ENDPOINT", "http://127.0.0.1:1"),
            ("NILAS_ORIGIN_ACCESS_KEY", "k"),
            ("NILAS_ORIGIN_SECRET_KEY", secret.as_str()),
            ("NILAS_ORIGIN_SESSION_TOKEN", secret.as_str()),
            ("NILAS_CREDENTIALS_ACCESS_KEY", "a"),
            ("NILAS_CREDENTIALS_SECRET_KEY", secret.as_str()),
        ];
        let good = if by_file { attempt(&file, &[], &[]) } else { attempt("", &variables, &[]) };
        hidden_everywhere(&good.config(), &secret)?;
        // Something else is wrong beside it, or the secret itself stands where it cannot.
        let bad = [
            attempt(&format!("{file}nonsense = 1\n"), &[], &[]),
            attempt(&format!("{file}nonsense"), &[], &[]),
            attempt(&file.replace("\"http://127.0.0.1:1\"", "3"), &[], &[]),
            attempt(&file, &[], &["--shards", "0"]),
            attempt("", &variables, &["--shards", "0"]),
            attempt("", &variables[3..], &[]),
            attempt("", &variables, &["--origin.secret_kye", &secret]),
            attempt("", &[], &["--origin.secret_key", &secret]),
            attempt("", &[], &[&secret]),
        ];
        for attempt in bad {
            let told = attempt.load().expect_err("it is wrong");
            prop_assert!(!told.contains(&secret), "{secret} is told in {told}");
        }
    }

    #[test]
    fn no_file_panics(text in "(\\PC|\\n){0,200}") {
        let mut errors = Vec::new();
        file::parse(FILE.as_ref(), &text, &mut errors);
    }

    #[test]
    fn no_argument_panics(arguments in prop::collection::vec("(--)?[a-z.=0-9 é]{0,20}", 0..6)) {
        let mut errors = Vec::new();
        flag::parse(&arguments, &mut errors);
    }
}
