//! Which of an origin's answer headers are told anew by this node instead of passed on.

/// Set by whoever sends the answer, or dependent on the request it answers.
const TOLD_ANEW: [&str; 7] = [
    "content-length",
    "content-range",
    "date",
    "server",
    "x-amz-request-id",
    "x-amz-id-2",
    "alt-svc",
];

/// Whether a header of an origin's answer, named in lower case, is the node's own to tell.
pub fn is_told_anew(name: &str) -> bool {
    TOLD_ANEW.contains(&name) || nilas_net::hop::is_hop_by_hop(name)
}
