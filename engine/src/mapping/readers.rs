//! To whom the origin has shown an object, and until when each is believed to be allowed it. An
//! identity that is not here is asked for at the origin; forgetting one costs a question.

use nilas_base::Monotonic;

use crate::origin::IdentityId;

/// Identities that are remembered for one object.
const READERS_MAX: usize = 16;

/// The identities that may read one object.
#[derive(Debug, Default)]
pub struct Readers(Vec<Reader>);

#[derive(Clone, Copy, Debug)]
struct Reader {
    identity: IdentityId,
    until: Monotonic,
}

impl Readers {
    /// Until when an identity is believed; `None` of one that the origin has not shown it to.
    pub fn until(&self, identity: IdentityId) -> Option<Monotonic> {
        self.0.iter().find(|reader| reader.identity == identity).map(|reader| reader.until)
    }

    /// Remembers that the origin has shown the object to an identity. Where there are too many, the
    /// one whose time ends first is forgotten.
    pub fn allow(&mut self, identity: IdentityId, until: Monotonic) {
        self.refuse(identity);
        if self.0.len() == READERS_MAX
            && let Some(first) = (0..self.0.len()).min_by_key(|&place| self.0[place].until)
        {
            self.0.swap_remove(first);
        }
        self.0.push(Reader { identity, until });
    }

    /// Forgets an identity.
    pub fn refuse(&mut self, identity: IdentityId) {
        self.0.retain(|reader| reader.identity != identity);
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Memory that it holds, in bytes.
    pub fn weight_bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<Reader>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::origin::{Signer, SigningKey};

    fn identity(number: u64) -> IdentityId {
        let access_key = format!("key-{number}");
        let key = SigningKey { access_key, secret_key: String::new(), session_token: None };
        Signer::Key(Arc::new(key)).identity().expect("a key is somebody's")
    }

    #[test]
    fn the_one_whose_time_ends_first_makes_room() {
        let mut readers = Readers::default();
        let start = nilas_base::Clock::system().now();
        let until = |number: u64| start.after(Duration::from_secs(1000 - number));
        for number in 0..=READERS_MAX as u64 {
            readers.allow(identity(number), until(number));
        }
        assert_eq!(readers.until(identity(0)), Some(until(0)));
        assert_eq!(readers.until(identity(READERS_MAX as u64 - 1)), None);
        assert_eq!(readers.until(identity(READERS_MAX as u64)), Some(until(READERS_MAX as u64)));
        readers.refuse(identity(0));
        assert_eq!(readers.until(identity(0)), None);
    }

    #[test]
    fn who_is_allowed_again_is_there_once() {
        let mut readers = Readers::default();
        let start = nilas_base::Clock::system().now();
        readers.allow(identity(1), start);
        readers.allow(identity(1), start.after(Duration::from_secs(1)));
        readers.refuse(identity(1));
        assert!(readers.is_empty());
    }
}
