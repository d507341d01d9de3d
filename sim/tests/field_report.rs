//! What users of such systems ran into (reads and memory): each test names the right behaviour. They
//! run the node's own code on the simulated world; what needs a kernel is tested in `engine/tests`.

use std::rc::Rc;
use std::time::Duration;

use nilas_sim::client::Pace;
use nilas_sim::history::{Asker, Author};
use nilas_sim::judge::Leniency;
use nilas_sim::key::{Key, KeyId, Nature};
use nilas_sim::node::NodeShape;
use nilas_sim::stage::{FAIR, Stage, small_shape};
use nilas_sim::watch::When;
use nilas_sim::weather::{OriginWeather, SmallBudget};

const BLOCK: u64 = 16 << 10;
const SECTOR: u64 = 2 << 10;

fn keys(names: &[&str]) -> Vec<Key> {
    let nature = |name: &str| match name.contains("/metadata/") {
        true => Nature::Immutable,
        false => Nature::Mutable,
    };
    names.iter().map(|name| Key { name: (*name).to_owned(), nature: nature(name) }).collect()
}

fn stage_of(weather: OriginWeather) -> Rc<Stage> {
    Rc::new(Stage::new(&small_shape(), keys(&["plain/a"]), weather))
}

#[test]
fn a_body_that_stalls_after_its_head_ends_in_time() {
    for seed in 0..20 {
        let weather = OriginWeather { piece_bytes_max: 4000, pause_us_max: 300_000_000, ..FAIR };
        let shape = NodeShape { seed, ..small_shape() };
        let stage = Stage::new(&shape, keys(&["plain/a"]), weather);
        stage.write(0, 5 * BLOCK);
        let leniency = Leniency { errors: true, cuts: true };
        let read = stage.read(0, stage.ask("GET", 0), Pace::FAST, leniency);
        let limit = Duration::from_secs(600);
        let ended = stage.world.block_on(stage.reactor.timeout(limit, read));
        assert!(ended.is_ok(), "seed {seed}: the client waits for ever");
        stage.assert_right();
    }
}

#[test]
fn a_reset_in_mid_body_is_resumed_by_range_under_the_same_version() {
    let mut resumed = 0;
    for seed in 0..20 {
        let weather = OriginWeather { piece_bytes_max: 5000, cut_one_in: Some(3), ..FAIR };
        let shape = NodeShape { seed, ..small_shape() };
        let stage = Stage::new(&shape, keys(&["plain/a"]), weather);
        stage.write(0, BLOCK);
        let leniency = Leniency { errors: true, cuts: true };
        let answer = stage.world.block_on(stage.read(0, stage.ask("GET", 0), Pace::FAST, leniency));
        stage.assert_right();
        let history = stage.history.borrow();
        let resumes =
            |told: &&nilas_sim::history::Told| told.asker == Asker::Fill && told.body.start > 0;
        let is_whole = answer.is_some_and(|answer| answer.is_whole);
        resumed += usize::from(is_whole && history.told.iter().any(|told| resumes(&told)));
    }
    assert!(resumed > 0, "some answers were cut and came whole all the same");
}

#[test]
fn concurrent_readers_of_one_page_each_get_all_of_it_and_ask_once() {
    let stage = stage_of(OriginWeather { piece_bytes_max: 300, ..FAIR });
    stage.write(0, 3 * BLOCK);
    let asks = (0..40).map(|number| stage.range(0, BLOCK - 100 + number, 900)).collect();
    assert_eq!(stage.play_together(0, asks), 40);
    stage.assert_right();
    let bytes = stage.origin.count.borrow().body_bytes;
    assert!(bytes <= 3 * SECTOR, "{bytes} bytes came for two sectors");
}

#[test]
fn a_first_read_in_the_middle_gives_the_bytes_that_lie_there() {
    for start in [1, SECTOR - 1, SECTOR, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 777] {
        let stage = stage_of(FAIR);
        stage.write(0, 4 * BLOCK);
        let answer = stage.play(0, stage.range(0, start, 3000));
        assert_eq!((answer.head.status, answer.body.len()), (206, 3000));
        stage.play(0, stage.ask("GET", 0));
        stage.assert_right();
    }
}

#[test]
fn a_new_etag_comes_with_its_own_length() {
    let stage = stage_of(FAIR);
    for length in [3 * BLOCK, 10, 5 * BLOCK + 1, 0, BLOCK] {
        let version = stage.write(0, length);
        stage.world.run_for(Duration::from_secs(61));
        for method in ["HEAD", "GET"] {
            let answer = stage.play(0, stage.ask(method, 0));
            assert_eq!(answer.head.version(), Some(version));
            assert_eq!(answer.head.content_length(), Some(length));
        }
    }
    stage.assert_right();
}

#[test]
fn parts_of_two_versions_are_never_mixed_nor_kept_together() {
    let stage = stage_of(OriginWeather { pause_us_max: 3000, piece_bytes_max: 1000, ..FAIR });
    stage.write(0, 6 * BLOCK);
    for round in 0..10 {
        let pause = Duration::from_millis(2);
        let pace = Pace { chunk_bytes: 2000, pause, stop_after_bytes: None };
        let leniency = Leniency { errors: false, cuts: true };
        let read = stage.read(0, stage.ask("GET", 0), pace, leniency);
        let overwrite = async {
            stage.reactor.sleep(Duration::from_millis(5 * round)).await;
            stage.write(0, 6 * BLOCK - round);
        };
        stage.world.block_on(async {
            let mut read = std::pin::pin!(read);
            let early = stage.reactor.timeout(Duration::ZERO, read.as_mut()).await;
            overwrite.await;
            if early.is_err() {
                read.await;
            }
        });
        stage.world.run_for(Duration::from_secs(61));
        stage.play(0, stage.ask("GET", 0));
        stage.assert_right();
    }
}

#[test]
fn what_names_no_version_is_not_kept() {
    let stage = stage_of(OriginWeather { hides_versions: true, ..FAIR });
    for _ in 0..5 {
        stage.write(0, BLOCK + 9);
        let answer = stage.play(0, stage.ask("GET", 0));
        assert_eq!(answer.head.version(), None);
        stage.assert_right();
    }
}

#[test]
fn a_second_pass_asks_the_origin_for_nothing() {
    let names = ["plain/a", "plain/b", "db/t/metadata/v1.metadata.json"];
    let stage = Stage::new(&small_shape(), keys(&names), FAIR);
    let pass = || {
        for key in 0..names.len() {
            stage.play(key, stage.ask("GET", key));
            stage.play(key, stage.range(key, 100, 5000));
            stage.play(key, stage.ask("HEAD", key));
        }
    };
    for key in 0..names.len() {
        stage.write(key, 2 * BLOCK + key as u64);
    }
    pass();
    let requests = stage.origin.count.borrow().requests;
    assert!(requests >= 3);
    (0..3).for_each(|_| pass());
    assert_eq!(stage.origin.count.borrow().requests, requests, "a hit asks nobody");
    stage.assert_right();
}

#[test]
fn what_can_never_change_is_never_asked_for_again() {
    let stage = Stage::new(&small_shape(), keys(&["db/t/metadata/snap-1.avro"]), FAIR);
    stage.write(0, 5000);
    stage.play(0, stage.ask("GET", 0));
    let requests = stage.origin.count.borrow().requests;
    for _ in 0..1000 {
        stage.world.run_for(Duration::from_secs(60));
        stage.play(0, stage.ask("HEAD", 0));
    }
    assert_eq!(stage.origin.count.borrow().requests, requests);
    stage.assert_right();
}

#[test]
fn head_and_get_agree_on_what_exists() {
    let stage = stage_of(FAIR);
    let both = |status: [u16; 2]| {
        let found = ["HEAD", "GET"].map(|method| stage.play(0, stage.ask(method, 0)).head.status);
        assert_eq!(found, status);
    };
    both([404, 404]);
    stage.write(0, 100);
    both([200, 200]);
    let write = stage.history.borrow_mut().begin_write(KeyId(0), Author::Stranger, None);
    stage.history.borrow_mut().commit(write);
    // Within the time to live both still find it; after it neither does.
    both([200, 200]);
    stage.world.run_for(Duration::from_secs(61));
    both([404, 404]);
    stage.assert_right();
}

#[test]
fn a_range_over_block_borders_is_whole() {
    let stage = stage_of(FAIR);
    stage.write(0, 5 * BLOCK + 3);
    for (start, length) in
        [(BLOCK - 1, 2), (BLOCK - 1, BLOCK + 2), (1, 5 * BLOCK), (2 * BLOCK, BLOCK)]
    {
        let answer = stage.play(0, stage.range(0, start, length));
        assert!(answer.is_whole && answer.body.len() as u64 == length);
    }
    stage.assert_right();
}

#[test]
fn a_first_small_range_brings_its_sectors_alone() {
    let stage = stage_of(FAIR);
    stage.write(0, 1000 * BLOCK);
    stage.play(0, stage.range(0, 500 * BLOCK + 10, 100));
    let bytes = stage.origin.count.borrow().body_bytes;
    assert!(bytes <= SECTOR, "{bytes} bytes came for one sector");
    stage.assert_right();
}

#[test]
fn what_is_known_of_many_objects_stays_within_its_memory() {
    let names: Vec<String> = (0..500).map(|number| format!("plain/object-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let budget = SmallBudget { mapping_bytes: 16 << 10, ..small_shape().budget };
    let shape = NodeShape { budget, ..small_shape() };
    let stage = Stage::new(&shape, keys(&names), FAIR);
    for key in 0..names.len() {
        stage.write(key, 100);
        stage.play(key, stage.ask("GET", key));
        for look in &stage.node.watches {
            let over = look(When::Running).over_budget(&shape.budget, &shape.geometry);
            assert_eq!(over, None, "after {key} objects");
        }
    }
    stage.assert_right();
}
