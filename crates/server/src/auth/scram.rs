//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, with and without channel binding.
//!
//! ```text
//!   client: n,,n=,r=CN                      CN: its nonce; the name is ignored, as in PostgreSQL
//!   server: r=CN SN,s=salt,i=iterations
//!   client: c=channel,r=CN SN,p=proof       proof = ClientKey xor HMAC(StoredKey, all that was said)
//!   server: v=HMAC(ServerKey, all that was said)
//! ```
//!
//! Invariants:
//! 1. A role that does not exist, or has no password, is answered like one that has: with a salt that is
//!    the same at each attempt; the attempt fails at its end.
//! 2. What is kept of a password (a [`Verifier`]) does not let its reader log in.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::pbkdf2::{PBKDF2_HMAC_SHA256, derive};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes of a SHA-256.
const HASH_BYTES: usize = 32;
/// Bytes of the salt of a new verifier: PostgreSQL's choice.
const SALT_BYTES: usize = 16;
/// Iterations of a new verifier: PostgreSQL's choice.
const ITERATIONS: u32 = 4096;
/// Bytes of the server's nonce before base64.
const NONCE_BYTES: usize = 18;

/// Bytes that nobody can guess.
///
/// # Panics
/// If the operating system has no randomness: no secret can be made then.
pub fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// What is stored of a password: `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`, base64, as PostgreSQL
/// has it in `pg_authid.rolpassword`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; HASH_BYTES],
    server_key: [u8; HASH_BYTES],
}

impl Verifier {
    /// Of a password, with a new salt.
    pub fn new(password: &str) -> Self {
        let iterations = NonZeroU32::new(ITERATIONS).expect("not zero");
        Self::with_salt(password, &random_bytes::<SALT_BYTES>(), iterations)
    }

    fn with_salt(password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        let (client_key, server_key) = keys(password, salt, iterations);
        Self { iterations, salt: salt.to_vec(), stored_key: sha256(&client_key), server_key }
    }

    /// For a role without a password: looks real, and no password fits it.
    pub fn mock(user: &str, secret: &[u8]) -> Self {
        let hash = hmac(secret, user.as_bytes());
        let unknown = random_bytes::<HASH_BYTES>();
        let iterations = NonZeroU32::new(ITERATIONS).expect("not zero");
        Self { iterations, salt: hash[..SALT_BYTES].to_vec(), stored_key: unknown, server_key: unknown }
    }

    /// Reads the stored form; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("SCRAM-SHA-256$")?;
        let (iterations, rest) = rest.split_once(':')?;
        let (salt, rest) = rest.split_once('$')?;
        let (stored_key, server_key) = rest.split_once(':')?;
        Some(Self {
            iterations: iterations.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: BASE64.decode(stored_key).ok()?.try_into().ok()?,
            server_key: BASE64.decode(server_key).ok()?.try_into().ok()?,
        })
    }

    /// Whether this is the password (for the method `password`, where it comes in clear).
    pub fn fits(&self, password: &str) -> bool {
        let same = Self::with_salt(password, &self.salt, self.iterations);
        equal(&same.stored_key, &self.stored_key)
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |bytes: &[u8]| BASE64.encode(bytes);
        let (salt, stored) = (encode(&self.salt), encode(&self.stored_key));
        write!(f, "SCRAM-SHA-256${}:{salt}${stored}:{}", self.iterations, encode(&self.server_key))
    }
}

/// Why a message of SCRAM is wrong: an error of the client, told as 08P01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed SCRAM message: {0}")]
pub struct ScramError(pub &'static str);

/// How the client wants to bind the proof to the encrypted channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding<'a> {
    /// The mechanism is SCRAM-SHA-256; `offered`: the server had offered the one with binding.
    Without {
        /// Whether binding was offered.
        offered: bool,
    },
    /// The mechanism is SCRAM-SHA-256-PLUS over a channel with this certificate hash
    /// (`tls-server-end-point`).
    Certificate(&'a [u8]),
}

/// A log-in after the client's first message.
#[derive(Debug)]
pub struct Exchange {
    verifier: Verifier,
    nonce: String,
    /// What `c=` must say.
    channel: Vec<u8>,
    client_first_bare: String,
    server_first: String,
}

impl Exchange {
    /// Takes the client's first message; `server_first` is then what to answer.
    pub fn begin(verifier: Verifier, binding: Binding<'_>, first: &[u8]) -> Result<Self, ScramError> {
        let nonce = BASE64.encode(random_bytes::<NONCE_BYTES>());
        Self::with_nonce(verifier, binding, first, &nonce)
    }

    fn with_nonce(
        verifier: Verifier,
        binding: Binding<'_>,
        first: &[u8],
        server_nonce: &str,
    ) -> Result<Self, ScramError> {
        let first = std::str::from_utf8(first).map_err(|_| ScramError("not UTF-8"))?;
        let mut parts = first.splitn(3, ',');
        let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ScramError("fewer than three parts"));
        };
        let mut channel = format!("{flag},{identity},").into_bytes();
        match (flag, binding) {
            ("n", Binding::Without { .. }) | ("y", Binding::Without { offered: false }) => {}
            ("y", Binding::Without { offered: true }) => {
                return Err(ScramError("the client believes that the server has no channel binding"));
            }
            ("p=tls-server-end-point", Binding::Certificate(hash)) => channel.extend_from_slice(hash),
            _ => return Err(ScramError("channel binding does not fit the mechanism")),
        }
        if !identity.is_empty() {
            return Err(ScramError("an authorization identity is not supported"));
        }
        let mut attributes = bare.split(',');
        let name = attributes.next().unwrap_or_default();
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        let nonce = nonce.ok_or(ScramError("no nonce"))?;
        let printable = |nonce: &str| nonce.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if !name.starts_with("n=") || nonce.is_empty() || !printable(nonce) {
            return Err(ScramError("no name or no printable nonce"));
        }
        let nonce = format!("{nonce}{server_nonce}");
        let salt = BASE64.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        Ok(Self { verifier, nonce, channel, client_first_bare: bare.to_string(), server_first })
    }

    /// The server's first message.
    pub fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Takes the client's last message: `Some` with the server's last one if the proof is right.
    pub fn finish(&self, last: &[u8]) -> Result<Option<String>, ScramError> {
        let last = std::str::from_utf8(last).map_err(|_| ScramError("not UTF-8"))?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or(ScramError("no proof"))?;
        let (channel, nonce) = without_proof.split_once(",r=").ok_or(ScramError("no nonce"))?;
        let channel = channel.strip_prefix("c=").and_then(|channel| BASE64.decode(channel).ok());
        if channel.as_deref() != Some(&self.channel) {
            return Err(ScramError("channel binding check failed"));
        }
        if nonce.split(',').next() != Some(&self.nonce) {
            return Err(ScramError("nonce does not match"));
        }
        let proof: [u8; HASH_BYTES] = BASE64
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramError("malformed proof"))?;
        let said = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let mut client_key = hmac(&self.verifier.stored_key, said.as_bytes());
        client_key.iter_mut().zip(proof).for_each(|(key, proof)| *key ^= proof);
        let right = equal(&sha256(&client_key), &self.verifier.stored_key);
        let answer = || format!("v={}", BASE64.encode(hmac(&self.verifier.server_key, said.as_bytes())));
        Ok(right.then(answer))
    }
}

/// The client's side of an exchange.
#[derive(Debug)]
pub struct ClientExchange {
    password: String,
    nonce: String,
    /// Bytes of `c=`, and its head as the first message has it.
    channel: Vec<u8>,
    head: String,
    /// What the server is to say at the end.
    expected: Option<String>,
    proved: bool,
}

impl ClientExchange {
    /// Of somebody who knows a password; `endpoint`: the hash of the server's certificate, if the connection
    /// is encrypted.
    pub fn begin(password: &str, endpoint: Option<&[u8]>) -> Self {
        let head = if endpoint.is_some() { "p=tls-server-end-point,," } else { "n,," };
        let mut channel = head.as_bytes().to_vec();
        channel.extend_from_slice(endpoint.unwrap_or_default());
        let nonce = BASE64.encode(random_bytes::<NONCE_BYTES>());
        let (password, head) = (password.to_string(), head.to_string());
        Self { password, nonce, channel, head, expected: None, proved: false }
    }

    /// The mechanism's name.
    pub fn mechanism(&self) -> &'static str {
        if self.head.starts_with('p') { "SCRAM-SHA-256-PLUS" } else { "SCRAM-SHA-256" }
    }

    /// The first message.
    pub fn first(&self) -> String {
        format!("{}n=,r={}", self.head, self.nonce)
    }

    /// The answer to the server's first message.
    ///
    /// # Errors
    /// If that is not one.
    pub fn answer(&mut self, server_first: &str) -> Result<String, ScramError> {
        let mut parts = server_first.split(',');
        let mut next = |name: &str| parts.next().and_then(|part| part.strip_prefix(name).map(str::to_string));
        let nonce = next("r=").filter(|nonce| nonce.starts_with(&self.nonce) && *nonce != self.nonce);
        let nonce = nonce.ok_or(ScramError("nonce does not match"))?;
        let salt = next("s=").and_then(|salt| BASE64.decode(salt).ok()).ok_or(ScramError("no salt"))?;
        let iterations = next("i=").and_then(|count| count.parse().ok());
        let iterations = iterations.ok_or(ScramError("no number of iterations"))?;
        let (client_key, server_key) = keys(&self.password, &salt, iterations);
        let without_proof = format!("c={},r={nonce}", BASE64.encode(&self.channel));
        let said = format!("n=,r={},{server_first},{without_proof}", self.nonce);
        let signature = hmac(&sha256(&client_key), said.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
        self.expected = Some(format!("v={}", BASE64.encode(hmac(&server_key, said.as_bytes()))));
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)))
    }

    /// Takes the server's last message.
    pub fn check(&mut self, server_last: &str) {
        self.proved = self.expected.as_deref() == Some(server_last);
    }

    /// Whether the server has proved that it knows the password.
    pub fn is_proved(&self) -> bool {
        self.proved
    }
}

/// The client's and the server's key of a password.
fn keys(password: &str, salt: &[u8], iterations: NonZeroU32) -> ([u8; HASH_BYTES], [u8; HASH_BYTES]) {
    // Where preparation fails the password counts as it is, as in PostgreSQL.
    let prepared = stringprep::saslprep(password);
    let password = prepared.as_ref().map_or(password, |prepared| prepared);
    let mut salted = [0; HASH_BYTES];
    derive(PBKDF2_HMAC_SHA256, iterations, salt, password.as_bytes(), &mut salted);
    (hmac(&salted, b"Client Key"), hmac(&salted, b"Server Key"))
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; HASH_BYTES] {
    sign(&Key::new(HMAC_SHA256, key), data).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn sha256(data: &[u8]) -> [u8; HASH_BYTES] {
    digest(&SHA256, data).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares without telling by its time where the difference is.
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::with_salt("pencil", &salt, NonZeroU32::new(4096).expect("not zero"));
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let binding = Binding::Without { offered: false };
        let exchange = Exchange::with_nonce(verifier, binding, first, nonce).expect("well formed");
        let server_first =
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(exchange.server_first(), server_first);
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = exchange.finish(last.as_bytes()).expect("well formed");
        assert_eq!(answer.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        let wrong = last.replace("p=d", "p=e");
        assert_eq!(exchange.finish(wrong.as_bytes()), Ok(None));
        assert!(exchange.finish(last.replace("c=biws", "c=eSws").as_bytes()).is_err());
    }

    #[test]
    fn verifiers_have_a_text() {
        let verifier = Verifier::new("p\u{e4}ss");
        let text = verifier.to_string();
        assert_eq!(Verifier::parse(&text), Some(verifier.clone()), "{text}");
        assert!(verifier.fits("p\u{e4}ss") && !verifier.fits("pass"));
        for wrong in ["", "md5abc", "SCRAM-SHA-256$0:AA==$AA==:AA==", &text[..text.len() - 4]] {
            assert_eq!(Verifier::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_binding_must_fit() {
        let begin = |binding, first: &str| {
            Exchange::begin(Verifier::mock("a", b"b"), binding, first.as_bytes()).is_ok()
        };
        assert!(begin(Binding::Certificate(&[1]), "p=tls-server-end-point,,n=,r=x"));
        assert!(!begin(Binding::Certificate(&[1]), "p=tls-unique,,n=,r=x"));
        assert!(!begin(Binding::Certificate(&[1]), "n,,n=,r=x"));
        assert!(!begin(Binding::Without { offered: true }, "y,,n=,r=x"));
        assert!(begin(Binding::Without { offered: false }, "y,,n=,r=x"));
        assert!(!begin(Binding::Without { offered: false }, "n,,n=,r="));
        assert!(!begin(Binding::Without { offered: false }, "n,a=b,n=,r=x"));
    }

    #[test]
    fn both_sides_prove_that_they_know_the_password() {
        for endpoint in [None, Some(&[1u8, 2][..])] {
            let mut client = ClientExchange::begin("pencil", endpoint);
            let binding = endpoint.map_or(Binding::Without { offered: false }, Binding::Certificate);
            let server = Exchange::begin(Verifier::new("pencil"), binding, client.first().as_bytes());
            let server = server.expect("well formed");
            let answer = client.answer(server.server_first()).expect("well formed");
            let last = server.finish(answer.as_bytes()).expect("well formed").expect("the right password");
            client.check(&last);
            assert!(client.is_proved());
            client.check("v=AAAA");
            assert!(!client.is_proved());
        }
    }

    /// A proof is of one key: one that differs from it in any single byte is another.
    #[test]
    fn every_byte_of_the_stored_key_counts() {
        let client_key = [7; HASH_BYTES];
        let accepts = |changed: Option<usize>| {
            let mut verifier = Verifier::mock("a", b"b");
            verifier.stored_key = sha256(&client_key);
            if let Some(at) = changed {
                verifier.stored_key[at] ^= 1;
            }
            let stored_key = verifier.stored_key;
            let binding = Binding::Without { offered: false };
            let exchange = Exchange::begin(verifier, binding, b"n,,n=,r=x").expect("well formed");
            let without_proof = format!("c={},r={}", BASE64.encode("n,,"), exchange.nonce);
            let said = format!("n=,r=x,{},{without_proof}", exchange.server_first());
            let mut proof = hmac(&stored_key, said.as_bytes());
            proof.iter_mut().zip(client_key).for_each(|(proof, key)| *proof ^= key);
            let last = format!("{without_proof},p={}", BASE64.encode(proof));
            exchange.finish(last.as_bytes()).expect("well formed").is_some()
        };
        assert!(accepts(None));
        assert!((0..HASH_BYTES).all(|at| !accepts(Some(at))));
    }

    #[test]
    fn an_unknown_role_always_has_the_same_salt() {
        let salts: Vec<_> = ["a", "a", "b"].map(|user| Verifier::mock(user, b"secret").salt).into();
        assert_eq!(salts[0], salts[1]);
        assert_ne!(salts[0], salts[2]);
    }
}
