//! Why a head is refused, and what the client is told to change.

use super::{
    HEAD_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX, METHOD_BYTES_MAX, REQUEST_LINE_BYTES_MAX,
    USER_METADATA_BYTES_MAX,
};
use crate::{Code, S3Error};

/// A head that is refused; the connection cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Over [`REQUEST_LINE_BYTES_MAX`].
    #[error(
        "The request line is longer than {REQUEST_LINE_BYTES_MAX} bytes. Shorten the key or the query."
    )]
    RequestLineTooLong,
    /// Over [`HEAD_BYTES_MAX`].
    #[error(
        "The request head is longer than {HEAD_BYTES_MAX} bytes. Send fewer or shorter headers."
    )]
    HeadTooLarge,
    /// Over [`HEADERS_MAX`].
    #[error("The request has more than {HEADERS_MAX} headers. Send fewer.")]
    TooManyHeaders,
    /// Over [`HEADER_BYTES_MAX`].
    #[error(
        "Your request header section exceeds the maximum allowed size of {HEADER_BYTES_MAX} bytes."
    )]
    HeadersTooLarge {
        /// Bytes of names and values.
        size_bytes: usize,
    },
    /// Over [`USER_METADATA_BYTES_MAX`].
    #[error(
        "Your metadata headers exceed the maximum allowed metadata size of {USER_METADATA_BYTES_MAX} bytes."
    )]
    MetadataTooLarge {
        /// Bytes of names and values.
        size_bytes: usize,
    },
    /// A line that ends in LF alone.
    #[error("A line of the request head ends in a line feed alone. End each with CR LF.")]
    BareLineFeed,
    /// A header continued on a second line.
    #[error("A header is folded over two lines. Send each on one line.")]
    FoldedHeader,
    /// White space between a header's name and its colon.
    #[error("A header has white space before its colon. Remove it.")]
    SpaceBeforeColon,
    /// A header name that is no token.
    #[error("A header's name is empty or holds a character that no header name may have.")]
    BadHeaderName,
    /// A NUL or another control character in a value.
    #[error("A header's value holds a control character. Remove or encode it.")]
    BadHeaderValue,
    /// A first line that is no request line.
    #[error(
        "The first line is no HTTP request line (method, target and version, one space between)."
    )]
    BadRequestLine,
    /// Over [`METHOD_BYTES_MAX`].
    #[error("The method's name is longer than {METHOD_BYTES_MAX} bytes.")]
    MethodTooLong,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("The HTTP version of the request is not supported. Use HTTP/1.1.")]
    BadVersion,
    /// A target that is neither a path nor an `http` address.
    #[error("The request target must begin with '/' or be an http:// address.")]
    BadTarget,
    /// An absolute target whose authority is not the Host header's.
    #[error(
        "The request target names another host than the Host header does. Send the same in both."
    )]
    HostMismatch,
    /// No Host on HTTP/1.1.
    #[error("The Host header is missing or empty. HTTP/1.1 requires it.")]
    MissingHost,
    /// More than one Host.
    #[error("The Host header is there more than once. Send it once.")]
    RepeatedHost,
    /// A Host that is no host.
    #[error("The Host header is no host name with an optional port.")]
    BadHost,
    /// A Content-Length that is not digits alone.
    #[error(
        "The Content-Length header must be one decimal number, without sign, spaces or commas."
    )]
    BadContentLength,
    /// Two Content-Lengths that differ.
    #[error("There are two Content-Length headers and they differ. Send one.")]
    DifferingContentLengths,
    /// Both Content-Length and Transfer-Encoding.
    #[error("Content-Length and Transfer-Encoding are both there. Send one of them.")]
    TwoLengths,
    /// Any transfer coding but `chunked`, or it twice.
    #[error("The only Transfer-Encoding supported is 'chunked', once.")]
    BadTransferEncoding,
    /// Transfer-Encoding on HTTP/1.0.
    #[error("HTTP/1.0 has no Transfer-Encoding. Use HTTP/1.1 or send a Content-Length.")]
    TransferEncodingTooNew,
}

impl From<HeadError> for S3Error {
    fn from(error: HeadError) -> S3Error {
        let code = match error {
            HeadError::HeadTooLarge
            | HeadError::TooManyHeaders
            | HeadError::HeadersTooLarge { .. } => Code::RequestHeaderSectionTooLarge,
            HeadError::MetadataTooLarge { .. } => Code::MetadataTooLarge,
            HeadError::RequestLineTooLong | HeadError::BadTarget => Code::InvalidURI,
            HeadError::BadVersion => Code::UnsupportedHttpVersion,
            HeadError::BadTransferEncoding => Code::NotImplemented,
            _ => Code::BadRequest,
        };
        let answer = S3Error::because(code, error.to_string());
        match error {
            HeadError::HeadersTooLarge { size_bytes } => answer
                .with("Size", size_bytes.to_string())
                .with("MaxSizeAllowed", HEADER_BYTES_MAX.to_string()),
            HeadError::MetadataTooLarge { size_bytes } => answer
                .with("Size", size_bytes.to_string())
                .with("MaxSizeAllowed", USER_METADATA_BYTES_MAX.to_string()),
            _ => answer,
        }
    }
}
