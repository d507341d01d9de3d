//! POST Object: a form that the node has judged, as a PUT of its file, and answered as the form asks. A
//! form that goes on as it came is not for this origin, which holds no keys.

use http::header::{ETAG, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nilas_net::Code;
use nilas_net::form::FormRewrite;
use nilas_net::percent::{encode_path, encode_query};

use super::call::Call;
use super::described::KEPT_HEADERS;
use super::failure::{Outcome, not_implemented, refused_because, xml_answer};
use super::put::put_object;
use super::xml::XmlWriter;
use crate::origin::{OriginAnswer, RequestBody};

/// The form that is made around a body, if one is.
pub(super) fn form_of(body: &RequestBody) -> Option<FormRewrite> {
    match body {
        RequestBody::Stream(body) => body.form().map(|around| around.form.clone()),
        RequestBody::Empty => None,
    }
}

/// Answers `POST /bucket`.
pub(super) async fn post_object(
    call: Call,
    body: RequestBody,
    form: FormRewrite,
) -> Outcome<OriginAnswer> {
    let headers = headers(&form)?;
    let (bucket, key) = (call.bucket_name.clone(), form.key().to_owned());
    let put = Call { method: Method::PUT, key: key.clone(), headers, ..call };
    let answer = put_object(put, body).await?;
    match answer.status {
        200 => Ok(told(answer, &form, (&bucket, &key))),
        _ => Ok(answer),
    }
}

/// The fields as a PUT has them. What else there is means nothing to S3 either.
fn headers(form: &FormRewrite) -> Outcome<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (field, value) in form.fields() {
        let name = match field.to_ascii_lowercase() {
            name if name == "acl" => "x-amz-acl".to_owned(),
            name if name == "tagging" => return Err(not_implemented("the field tagging")),
            name => name,
        };
        let is_header = name.starts_with("x-amz-")
            || name == "content-md5"
            || KEPT_HEADERS.contains(&name.as_str());
        if !is_header {
            continue;
        }
        let bad =
            |_| refused_because(Code::InvalidArgument, format!("the field {field} is no header"));
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(()))?;
        headers.append(header, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad(()))?);
    }
    Ok(headers)
}

/// The answer to a write, in the way that the form asks for.
fn told(answer: OriginAnswer, form: &FormRewrite, (bucket, key): (&str, &str)) -> OriginAnswer {
    let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or_default();
    if let Some(address) = redirect(form, (bucket, key), etag) {
        let mut headers = answer.headers.clone();
        headers.insert(LOCATION, address);
        return OriginAnswer::empty(303, headers);
    }
    let mut path = format!("/{bucket}/").into_bytes();
    encode_path(key.as_bytes(), &mut path);
    let location = HeaderValue::from_bytes(&path).expect("what is encoded is ASCII");
    let mut done = match form.field("success_action_status") {
        Some("200") => OriginAnswer::empty(200, HeaderMap::new()),
        Some("201") => xml_answer(201, created(etag, &path, (bucket, key)).into()),
        _ => OriginAnswer::empty(204, HeaderMap::new()),
    };
    done.headers.extend(answer.headers);
    done.headers.insert(LOCATION, location);
    done
}

fn created(etag: &str, path: &[u8], (bucket, key): (&str, &str)) -> String {
    XmlWriter::document("PostResponse", |xml| {
        xml.text("Location", &String::from_utf8_lossy(path));
        xml.text("Bucket", bucket);
        xml.text("Key", key);
        xml.text("ETag", etag);
    })
}

/// Where the browser is sent on to. An address that is none is as good as not given.
fn redirect(form: &FormRewrite, (bucket, key): (&str, &str), etag: &str) -> Option<HeaderValue> {
    let address = form.field("success_action_redirect").or(form.field("redirect"))?;
    if !["http://", "https://"].iter().any(|scheme| address.starts_with(scheme)) {
        return None;
    }
    let mut told = address.as_bytes().to_vec();
    let mut joint = if address.contains('?') { b'&' } else { b'?' };
    for (name, value) in [("bucket", bucket), ("key", key), ("etag", etag)] {
        told.push(joint);
        told.extend_from_slice(format!("{name}=").as_bytes());
        encode_query(value.as_bytes(), &mut told);
        joint = b'&';
    }
    HeaderValue::from_bytes(&told).ok()
}
