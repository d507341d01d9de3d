//! epoll as a ring body.

use super::{Ring, RingOptions};
use std::io;

pub(crate) struct EpollRing;

impl EpollRing {
    pub(crate) fn new(_options: RingOptions) -> io::Result<Box<dyn Ring>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
