//! Credentials for a node that nobody configured, from the system's randomness.

use std::io::{self, Read};

use crate::config::ClientCredential;

/// Where the system's randomness is read.
const RANDOM_DEVICE: &str = "/dev/urandom";
/// Characters of a generated access key, as S3's have.
const ACCESS_KEY_CHARACTERS: usize = 20;
/// Characters of a generated secret key, as S3's have: 200 bits.
const SECRET_KEY_CHARACTERS: usize = 40;
/// Five bits a character; none that is mistaken for another, or that needs quoting anywhere.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Bytes that nobody can foretell.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = std::fs::File::open(RANDOM_DEVICE).and_then(|mut it| it.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| {
        let cure = "give the process a /dev";
        io::Error::new(error.kind(), format!("{RANDOM_DEVICE} cannot be read: {error}; {cure}"))
    })
}

/// A new credential.
pub fn generate_credential() -> io::Result<ClientCredential> {
    let bytes: [u8; ACCESS_KEY_CHARACTERS + SECRET_KEY_CHARACTERS] = random_bytes()?;
    let text: String =
        bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    let (access_key, secret_key) = text.split_at(ACCESS_KEY_CHARACTERS);
    Ok(ClientCredential::new(access_key, secret_key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_credentials_differ_and_look_like_credentials() {
        let one = generate_credential().expect("the system has randomness");
        let other = generate_credential().expect("the system has randomness");
        assert_ne!(one.access_key, other.access_key);
        assert_ne!(one.secret_key.expose(), other.secret_key.expose());
        assert_eq!((one.access_key.len(), one.secret_key.expose().len()), (20, 40));
    }
}
