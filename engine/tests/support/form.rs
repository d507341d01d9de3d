//! A POST form as a browser sends it: its fields, the policy that covers them, its signature, its file.
//! Right as it is made, so that one thing at a time can be wrong.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nilas_net::sigv4::{form_credential, form_signature};

use super::client::{Answer, TestClient};

const AMZ_DATE: &str = "20260101T000000Z";

/// A form.
#[derive(Clone)]
pub struct Form {
    /// Whose.
    pub access_key: String,
    /// Its secret.
    pub secret: String,
    /// Names and values, in order.
    pub fields: Vec<(String, String)>,
    /// In JSON.
    pub conditions: Vec<String>,
    /// Until when its policy holds.
    pub expiration: String,
    /// A policy in place of the one that is made.
    pub policy: Option<String>,
    /// The file's name.
    pub file_name: String,
    /// Its bytes.
    pub file: Vec<u8>,
    /// What follows it.
    pub ending: String,
}

impl Form {
    /// A form that writes `bytes` of file to a key of the bucket `lake`.
    pub fn new((access_key, secret): (&str, &str), key: &str, file: &[u8]) -> Form {
        let credential = form_credential(access_key, AMZ_DATE, "us-east-1");
        let form = Form {
            access_key: access_key.to_owned(),
            secret: secret.to_owned(),
            fields: vec![("key".to_owned(), key.to_owned())],
            conditions: vec![
                "{\"bucket\": \"lake\"}".to_owned(),
                "[\"starts-with\", \"$key\", \"\"]".to_owned(),
            ],
            expiration: "2099-01-01T00:00:00.000Z".to_owned(),
            policy: None,
            file_name: "f.txt".to_owned(),
            file: file.to_vec(),
            ending: "\r\n--b--\r\n".to_owned(),
        };
        form.field("x-amz-algorithm", "AWS4-HMAC-SHA256")
            .field("x-amz-credential", &credential)
            .field("x-amz-date", AMZ_DATE)
    }

    /// With a field that a condition covers.
    #[must_use]
    pub fn field(self, name: &str, value: &str) -> Form {
        let condition = serde_json::json!({ name: value }).to_string();
        self.uncovered(name, value).condition(&condition)
    }

    /// With a field that none covers.
    #[must_use]
    pub fn uncovered(mut self, name: &str, value: &str) -> Form {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a condition more.
    #[must_use]
    pub fn condition(mut self, json: &str) -> Form {
        self.conditions.push(json.to_owned());
        self
    }

    /// With another policy, in JSON or not.
    #[must_use]
    pub fn policy(mut self, text: &str) -> Form {
        self.policy = Some(text.to_owned());
        self
    }

    /// Without a field.
    #[must_use]
    pub fn without(mut self, name: &str) -> Form {
        self.fields.retain(|(known, _)| known != name);
        self
    }

    /// The body as it is sent, and where its file begins in it.
    pub fn body(&self) -> Vec<u8> {
        let conditions = self.conditions.join(", ");
        let made =
            format!("{{\"expiration\": \"{}\", \"conditions\": [{conditions}]}}", self.expiration);
        let policy = BASE64_STANDARD.encode(self.policy.as_ref().unwrap_or(&made));
        let credential = form_credential(&self.access_key, AMZ_DATE, "us-east-1");
        let signature = form_signature(&self.secret, &credential, &policy).expect("a credential");
        let proof = [("policy".to_owned(), policy), ("x-amz-signature".to_owned(), signature)];
        let mut body = String::new();
        for (name, value) in self.fields.iter().chain(&proof) {
            body.push_str(&format!(
                "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            ));
        }
        body.push_str(&format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
             Content-Type: text/plain\r\n\r\n",
            self.file_name
        ));
        [body.as_bytes(), &self.file, self.ending.as_bytes()].concat()
    }

    /// Posts it.
    pub fn post(&self, client: &mut TestClient) -> Answer {
        post(client, &self.body())
    }

    /// Posts it in HTTP chunks, its length unsaid.
    pub fn post_in_chunks(&self, client: &mut TestClient) -> Answer {
        let mut sent = head("Transfer-Encoding: chunked");
        for chunk in self.body().chunks(10_000) {
            sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            sent.extend_from_slice(chunk);
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(b"0\r\n\r\n");
        client.try_write(&sent);
        client.answer(false)
    }
}

/// Posts a body to `lake`.
pub fn post(client: &mut TestClient, body: &[u8]) -> Answer {
    client.write(&head(&format!("Content-Length: {}", body.len())));
    // A refusal may come before all was sent.
    client.try_write(body);
    client.answer(false)
}

fn head(framing: &str) -> Vec<u8> {
    format!(
        "POST /lake HTTP/1.1\r\nHost: here\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         x-amz-acl: public-read\r\n{framing}\r\n\r\n"
    )
    .into_bytes()
}
