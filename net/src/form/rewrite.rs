//! The form that goes to the origin in a client's place: the same fields, under a policy that allows
//! these very fields and nothing else, signed with the origin's key or with none. It keeps the
//! client's boundary, so that the length of what follows the fields stays what it was.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use memchr::memmem;
use nilas_base::UnixMillis;

use super::verdict::IGNORED_PREFIX;
use super::{FILE_NAME, FormHead, LengthRange};
use crate::date::{UnixSeconds, amz_date, iso_date};
use crate::sigv4::{ALGORITHM, SigningIdentity, form_credential, form_signature};
use crate::{Code, S3Error};

/// How long a policy holds that the node makes: an origin may look at it only when the file has come
/// whole. Nobody but the origin ever sees it.
pub const POLICY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Fields that are made anew, or end here.
const MADE_ANEW: [&str; 9] = [
    "awsaccesskeyid",
    "bucket",
    "policy",
    "signature",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-signature",
];

/// A form to be sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormRewrite {
    boundary: String,
    bucket: String,
    /// The key first, made whole.
    fields: Vec<(String, String)>,
    range: LengthRange,
    file_content_type: Option<String>,
}

impl FormRewrite {
    /// The form in place of one that was admitted; or what of it cannot be told on without a doubt.
    pub fn of(
        form: &FormHead,
        (bucket, boundary): (&str, &str),
        range: LengthRange,
    ) -> Result<FormRewrite, S3Error> {
        let key = written_key(form)?;
        if form.file.is_none() {
            return Err(invalid("POST requires exactly one file upload per request."));
        }
        let mut fields = vec![("key".to_owned(), key)];
        for (name, value) in &form.fields {
            let lower = name.to_ascii_lowercase();
            let ends_here = lower == "key"
                || MADE_ANEW.contains(&lower.as_str())
                || lower.starts_with(IGNORED_PREFIX);
            if !ends_here {
                fields.push((name.clone(), value.clone()));
            }
        }
        let delimiter = format!("--{boundary}");
        let is_plain = |(name, value): &(String, String)| {
            name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
                && memmem::find(value.as_bytes(), delimiter.as_bytes()).is_none()
        };
        if !boundary.bytes().all(is_boundary_byte) || !fields.iter().all(is_plain) {
            return Err(S3Error::new(Code::MalformedPOSTRequest));
        }
        let file_content_type = form.file.as_ref().and_then(|file| file.content_type.clone());
        let is_printable = |text: &String| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        Ok(FormRewrite {
            boundary: boundary.to_owned(),
            bucket: bucket.to_owned(),
            fields,
            range,
            file_content_type: file_content_type.filter(is_printable),
        })
    }

    /// The key that it writes.
    pub fn key(&self) -> &str {
        self.field("key").expect("it was put there first")
    }

    /// A field's value; names are compared without case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The fields that say what is written and how it is answered.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The request's `Content-Type`.
    pub fn content_type(&self) -> String {
        let boundary = &self.boundary;
        match boundary.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+'".contains(&byte))
        {
            true => format!("multipart/form-data; boundary={boundary}"),
            false => format!("multipart/form-data; boundary=\"{boundary}\""),
        }
    }

    /// All before the file's bytes, under a policy signed by `identity`; without one where nobody signs.
    pub fn head(&self, identity: Option<&SigningIdentity<'_>>, now: UnixMillis) -> String {
        let mut fields = self.fields.clone();
        if let Some(identity) = identity {
            self.sign(&mut fields, identity, now);
        }
        let mut head = String::new();
        for (name, value) in &fields {
            self.begin_part(&mut head, name);
            head.push_str(&format!("\r\n\r\n{value}\r\n"));
        }
        self.begin_part(&mut head, "file");
        // The key is whole already; some origins take a part without a name for a field.
        head.push_str("; filename=\"file\"\r\n");
        if let Some(content_type) = &self.file_content_type {
            head.push_str(&format!("Content-Type: {content_type}\r\n"));
        }
        head.push_str("\r\n");
        head
    }

    /// What ends the file, and the form.
    pub fn end(&self) -> String {
        format!("\r\n--{}--", self.boundary)
    }

    fn begin_part(&self, head: &mut String, name: &str) {
        let boundary = &self.boundary;
        head.push_str(&format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\""));
    }

    fn sign(
        &self,
        fields: &mut Vec<(String, String)>,
        identity: &SigningIdentity<'_>,
        now: UnixMillis,
    ) {
        let time = amz_date(UnixSeconds::from(now));
        let time = std::str::from_utf8(&time).expect("digits and letters");
        let credential = form_credential(identity.access_key, time, identity.region);
        let mut field = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
        field("x-amz-algorithm", ALGORITHM);
        field("x-amz-credential", &credential);
        field("x-amz-date", time);
        if let Some(token) = identity.session_token {
            field("x-amz-security-token", token);
        }
        let policy = BASE64_STANDARD.encode(self.policy(fields, now));
        let signature = form_signature(identity.secret, &credential, &policy)
            .expect("the credential was made here");
        fields.push(("policy".to_owned(), policy));
        fields.push(("x-amz-signature".to_owned(), signature));
    }

    /// A policy that allows these fields as they are.
    fn policy(&self, fields: &[(String, String)], now: UnixMillis) -> String {
        let until = iso_date(UnixMillis(now.0 + POLICY_LIFETIME.as_millis() as u64));
        let until = std::str::from_utf8(&until).expect("digits and letters");
        let bucket = [("bucket".to_owned(), self.bucket.clone())];
        let mut conditions: Vec<String> = bucket
            .iter()
            .chain(fields)
            .map(|(name, value)| format!("{{{}:{}}}", json(name), json(value)))
            .collect();
        if self.range != LengthRange::ANY {
            let LengthRange { bytes_min, bytes_max } = self.range;
            // Numbers beyond are not the same number to every reader.
            let bytes_max = bytes_max.min(i64::MAX as u64);
            conditions.push(format!("[\"content-length-range\",{bytes_min},{bytes_max}]"));
        }
        let conditions = conditions.join(",");
        format!("{{\"expiration\":\"{until}\",\"conditions\":[{conditions}]}}")
    }
}

/// The key, made whole: an origin finds nothing to put in its place.
fn written_key(form: &FormHead) -> Result<String, S3Error> {
    if let Some(name) = form.repeated_field() {
        return Err(invalid(&format!("The form has the field '{name}' more than once.")));
    }
    let key = form.key().ok_or_else(|| invalid(NO_KEY))?;
    if key.is_empty() {
        return Err(invalid("User key must have a length greater than 0."));
    }
    match key.contains(FILE_NAME) {
        true => Err(invalid("The name of the file must not hold ${filename} itself.")),
        false => Ok(key),
    }
}

const NO_KEY: &str = "Bucket POST must contain a field named 'key'. If it is specified, please check \
    the order of the fields.";

fn invalid(message: &str) -> S3Error {
    S3Error::because(Code::InvalidArgument, message.to_owned())
}

/// A text of JSON; S3 reads a dollar sign that is not escaped as the beginning of a variable.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('$', "\\u0024")
}

/// RFC 2046, section 5.1.1.
fn is_boundary_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte)
}

#[cfg(test)]
mod tests;
