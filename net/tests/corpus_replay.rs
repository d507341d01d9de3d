//! The fuzz targets without a fuzzer: every file of the corpus, and thousands of seeded mutations of them.
//! A failure prints the input, to be kept as a file of the corpus once it is mended.

use std::path::Path;

use nilas_base::Rng;

#[path = "../fuzz/targets/aws_chunked.rs"]
mod aws_chunked;
#[path = "../fuzz/targets/document.rs"]
mod document;
#[path = "../fuzz/targets/form.rs"]
mod form;
#[path = "../fuzz/targets/head.rs"]
mod head;
#[path = "../fuzz/targets/policy.rs"]
mod policy;
#[path = "../fuzz/targets/proxy.rs"]
mod proxy;
#[path = "../fuzz/targets/range.rs"]
mod range;
#[path = "../fuzz/targets/sigv4.rs"]
mod sigv4;

/// Mutations of one target.
const MUTATIONS: usize = 4000;
/// Changes made to one input.
const CHANGES_MAX: u64 = 4;

fn replay(target: &str, run: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let corpus = corpus(target);
    for input in &corpus {
        run_shown(target, input, &run);
    }
    let mut rng = Rng::from_seed(corpus.len() as u64);
    for _ in 0..MUTATIONS {
        let mut input = pick(&mut rng, &corpus).clone();
        for _ in 0..=rng.below(CHANGES_MAX) {
            mutate(&mut rng, &mut input, &corpus);
        }
        run_shown(target, &input, &run);
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("the corpus can be listed").path())
        .collect();
    paths.sort();
    assert!(paths.len() > 5, "{target} has a corpus");
    paths.iter().map(|path| std::fs::read(path).expect("the corpus can be read")).collect()
}

fn run_shown(target: &str, input: &[u8], run: &(impl Fn(&[u8]) + std::panic::RefUnwindSafe)) {
    // What failed is in the panic before; this one says on which input.
    if std::panic::catch_unwind(|| run(input)).is_err() {
        panic!("{target} fails on {:?}", input.escape_ascii().to_string());
    }
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

/// Bytes that mean something to some parser.
const TELLING: &[u8] = b"\r\n\t \0:;,=&%+-/?#\"'*.~0159afAFxz\x7f\x80\xff";

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = rng.below(input.len() as u64 + 1) as usize;
    let to = at + rng.below((input.len() - at) as u64 + 1) as usize;
    match rng.below(7) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..to)),
        2 => input.insert(at, *pick(rng, TELLING)),
        3 => {
            let copy = input[at..to].to_vec();
            input.splice(at..at, copy);
        }
        4 => {
            let other = pick(rng, corpus);
            let from = rng.below(other.len() as u64 + 1) as usize;
            input.splice(at.., other[from..].iter().copied());
        }
        5 if at < input.len() => input[at] ^= 1 << rng.below(8),
        _ if at < input.len() => input[at] = *pick(rng, TELLING),
        _ => input.push(*pick(rng, TELLING)),
    }
}

#[test]
fn no_bytes_break_the_head() {
    replay("head", head::run);
}

#[test]
fn no_bytes_break_sigv4() {
    replay("sigv4", sigv4::run);
}

#[test]
fn no_bytes_break_chunked_bodies() {
    replay("aws_chunked", aws_chunked::run);
}

#[test]
fn no_bytes_break_forms() {
    replay("form", form::run);
}

#[test]
fn no_bytes_break_policies() {
    replay("policy", policy::run);
}

#[test]
fn no_bytes_break_documents_and_escapes() {
    replay("document", document::run);
}

#[test]
fn no_bytes_break_proxy_headers() {
    replay("proxy", proxy::run);
}

#[test]
fn no_bytes_break_ranges() {
    replay("range", range::run);
}
