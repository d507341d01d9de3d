//! Which key an origin says that a form has written: in the `Location` of its answer, the address that
//! it sends the browser on to, or the `Key` of a 201. It may have read the form otherwise than the node
//! did; what it names is forgotten too.

use bytes::Bytes;
use nilas_net::percent::{Plus, decode};
use nilas_net::query;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use super::super::Outcome;
use crate::invalidate::Touched;
use crate::origin::{AnswerBody, OriginAnswer, OriginError};

/// Bytes of a 201: bucket, key and address, escaped.
const CREATED_BYTES_MAX: usize = 64 << 10;

/// What a form has touched, its answer told.
pub(in crate::relay) async fn also_told<'a>(
    touched: Touched<'a>,
    outcome: Outcome,
) -> (Touched<'a>, Outcome) {
    let Touched::Keys(bucket, mut keys) = touched else { return (touched, outcome) };
    let outcome = match outcome {
        Outcome::Answered(Ok(answer)) => Outcome::Answered(told(answer, bucket, &mut keys).await),
        Outcome::AnsweredEarly(Ok(answer), kept_open) => {
            Outcome::AnsweredEarly(told(answer, bucket, &mut keys).await, kept_open)
        }
        other => other,
    };
    (Touched::Keys(bucket, keys), outcome)
}

async fn told(
    mut answer: OriginAnswer,
    bucket: &str,
    keys: &mut Vec<String>,
) -> Result<OriginAnswer, OriginError> {
    let mut named = Vec::new();
    if matches!(answer.status, 200..=204 | 303)
        && let Some(location) = answer.headers.get(http::header::LOCATION)
    {
        let location = String::from_utf8_lossy(location.as_bytes());
        named = keys_of_address(&location, answer.status == 303, bucket);
    }
    if answer.status == 201 {
        let body = std::mem::replace(&mut answer.body, AnswerBody::empty());
        let body = body.collect(CREATED_BYTES_MAX).await?;
        named.extend(key_of_xml(&body));
        answer.body = AnswerBody::whole(Bytes::from(body));
    }
    named.retain(|key| !keys.contains(key));
    keys.append(&mut named);
    Ok(answer)
}

/// The keys that an address may mean, whichever place it has for the bucket.
fn keys_of_address(address: &str, is_redirect: bool, bucket: &str) -> Vec<String> {
    let (path, query_raw) = address.split_once('?').unwrap_or((address, ""));
    if is_redirect {
        let key = query::find(query_raw, "key").and_then(|pair| pair.decoded().ok());
        return key.into_iter().map(|key| key.into_owned()).collect();
    }
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => path.trim_start_matches('/'),
    };
    let mut decoded = Vec::new();
    if decode(path.as_bytes(), Plus::Literal, &mut decoded).is_err() {
        return Vec::new();
    }
    let Ok(path) = String::from_utf8(decoded) else { return Vec::new() };
    let in_path_style = path.strip_prefix(bucket).and_then(|rest| rest.strip_prefix('/'));
    let both = [in_path_style, Some(path.as_str())];
    both.into_iter().flatten().filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// The text of the first `Key`.
fn key_of_xml(xml: &[u8]) -> Option<String> {
    let mut reader = Reader::from_reader(xml);
    let mut key: Option<String> = None;
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) if tag.local_name().as_ref() == b"Key" => key = Some(String::new()),
            Event::End(tag) if tag.local_name().as_ref() == b"Key" => return key,
            Event::Text(text) => {
                let text = text.decode().ok()?;
                key.iter_mut().for_each(|key| key.push_str(&text));
            }
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().ok()?.map(String::from);
                let name = reference.decode().ok()?;
                let named = resolve_predefined_entity(&name).map(str::to_owned);
                let text = character.or(named)?;
                key.iter_mut().for_each(|key| key.push_str(&text));
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_key_in_either_style() {
        for (address, is_redirect, keys) in [
            ("http://h:1/lake/a%2Fb+c", false, &["a/b+c", "lake/a/b+c"][..]),
            ("http://lake.h/a", false, &["a"]),
            ("/lake/a", false, &["a", "lake/a"]),
            ("/a?key=b", false, &["a"]),
            ("http://h", false, &[]),
            ("http://h/%zz", false, &[]),
            ("http://page/done?bucket=lake&key=a%2Fb&etag=%22e%22", true, &["a/b"]),
            ("http://page/done", true, &[]),
            ("", true, &[]),
        ] {
            assert_eq!(keys_of_address(address, is_redirect, "lake"), keys, "{address}");
        }
    }

    #[test]
    fn the_key_of_a_created_object_is_read_from_its_answer() {
        for (xml, key) in [
            (
                "<PostResponse><Bucket>b</Bucket><Key>a&amp;b&#33;/c</Key></PostResponse>",
                Some("a&b!/c"),
            ),
            ("<PostResponse><Key></Key></PostResponse>", Some("")),
            ("<PostResponse></PostResponse>", None),
            ("<PostResponse><Key>a", None),
            ("<PostResponse><Key>a&nbsp;</Key></PostResponse>", None),
            ("", None),
        ] {
            assert_eq!(key_of_xml(xml.as_bytes()).as_deref(), key, "{xml}");
        }
    }

    #[tokio::test]
    async fn what_an_answer_names_is_touched_too() {
        let headers: http::HeaderMap =
            [(http::header::LOCATION, "http://h/lake/other".parse().expect("a value"))]
                .into_iter()
                .collect();
        let body = AnswerBody::whole(Bytes::from_static(b"<R><Key>third</Key></R>"));
        let answer = OriginAnswer { status: 201, headers, body, length: Some(23) };
        let touched = Touched::Keys("lake", vec!["asked".to_owned()]);
        let (touched, outcome) = also_told(touched, Outcome::Answered(Ok(answer))).await;
        let keys = ["asked", "other", "lake/other", "third"].map(str::to_owned).to_vec();
        assert_eq!(touched, Touched::Keys("lake", keys));
        let Outcome::Answered(Ok(answer)) = outcome else { panic!("it was answered") };
        assert_eq!(answer.body.collect(100).await.expect("whole"), b"<R><Key>third</Key></R>");
    }
}
