//! The table of error codes: name, status and default message, in S3's own words where it has them.

macro_rules! codes {
    ($($code:ident $status:literal $message:literal;)*) => {
        /// An S3 error code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $message] $code,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$code,)*];

            /// The code as XML carries it.
            pub fn name(self) -> &'static str {
                match self { $(Code::$code => stringify!($code),)* }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$code => $status,)* }
            }

            /// The default message.
            pub fn message(self) -> &'static str {
                match self { $(Code::$code => $message,)* }
            }
        }
    };
}

codes! {
    AccessDenied 403 "Access Denied";
    AuthorizationHeaderMalformed 400 "The authorization header is malformed.";
    AuthorizationQueryParametersError 400 "The authorization query parameters that you provided are not valid.";
    BadDigest 400 "The Content-MD5 or checksum value that you specified did not match what the server received.";
    BadRequest 400 "An error occurred when parsing the HTTP request.";
    BucketAlreadyExists 409 "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Select a different name and try again.";
    BucketAlreadyOwnedByYou 409 "Your previous request to create the named bucket succeeded and you already own it.";
    BucketNotEmpty 409 "The bucket you tried to delete is not empty.";
    ConditionalRequestConflict 409 "The conditional request cannot succeed due to a conflicting operation against this resource.";
    EntityTooLarge 400 "Your proposed upload exceeds the maximum allowed object size.";
    EntityTooSmall 400 "Your proposed upload is smaller than the minimum allowed object size.";
    ExpectationFailed 417 "The expectation given in the Expect request header could not be met.";
    ExpiredToken 400 "The provided token has expired.";
    IncompleteBody 400 "You did not provide the number of bytes specified by the Content-Length HTTP header.";
    InternalError 500 "We encountered an internal error. Please try again.";
    InvalidAccessKeyId 403 "The AWS Access Key Id you provided does not exist in our records.";
    InvalidArgument 400 "Invalid Argument";
    InvalidBucketName 400 "The specified bucket is not valid.";
    InvalidDigest 400 "The Content-MD5 you specified was invalid.";
    InvalidPart 400 "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.";
    InvalidPartOrder 400 "The list of parts was not in ascending order. Parts must be ordered by part number.";
    InvalidPolicyDocument 400 "The content of the form does not meet the conditions specified in the policy document.";
    InvalidRange 416 "The requested range is not satisfiable";
    InvalidRequest 400 "Invalid Request";
    InvalidToken 400 "The provided token is malformed or otherwise invalid.";
    InvalidURI 400 "Couldn't parse the specified URI.";
    KeyTooLongError 400 "Your key is too long";
    MalformedTrailerError 400 "The request contained trailing data that was not well-formed or did not conform to our published schema.";
    MalformedXML 400 "The XML you provided was not well-formed or did not validate against our published schema";
    MalformedPOSTRequest 400 "The body of your POST request is not well-formed multipart/form-data.";
    MaxPostPreDataLengthExceededError 400 "Your POST request fields preceding the upload file were too large.";
    MaxMessageLengthExceeded 400 "Your request was too big.";
    MetadataTooLarge 400 "Your metadata headers exceed the maximum allowed metadata size";
    MethodNotAllowed 405 "The specified method is not allowed against this resource.";
    MissingContentLength 411 "You must provide the Content-Length HTTP header.";
    MissingRequestBodyError 400 "Request Body is empty";
    MissingSecurityHeader 400 "Your request is missing a required header.";
    NoSuchBucket 404 "The specified bucket does not exist";
    NoSuchKey 404 "The specified key does not exist.";
    NoSuchUpload 404 "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.";
    NotImplemented 501 "A header you provided implies functionality that is not implemented";
    NotModified 304 "Not Modified";
    PreconditionFailed 412 "At least one of the pre-conditions you specified did not hold";
    RequestHeaderSectionTooLarge 400 "Your request header section exceeds the maximum allowed size.";
    RequestTimeTooSkewed 403 "The difference between the request time and the current time is too large.";
    RequestTimeout 400 "Your socket connection to the server was not read from or written to within the timeout period.";
    ServiceUnavailable 503 "Reduce your request rate.";
    SignatureDoesNotMatch 403 "The request signature we calculated does not match the signature you provided. Check your key and signing method.";
    SlowDown 503 "Please reduce your request rate.";
    UnsupportedHttpVersion 505 "The HTTP version of the request is not supported. Use HTTP/1.1.";
    XAmzContentSHA256Mismatch 400 "The provided 'x-amz-content-sha256' header does not match what was computed.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_and_a_message_and_no_two_share_a_name() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert!((300..600).contains(&code.status()) && !code.message().is_empty(), "{code:?}");
            assert!(Code::ALL[..at].iter().all(|other| other.name() != code.name()), "{code:?}");
        }
    }
}
