// SPDX-License-Identifier: Apache-2.0
//! Signature Version 4 for reads of S3; the signing key is cached for its day.
//! https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use reqsign_aws_v4::Credential;
use reqsign_core::time::Timestamp;
use ring::{digest, hmac};

use crate::attempt::sign_read::{SignRead, Signed};
use crate::auth::credentials::Credentials;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// The result of four HMACs; it serves for all requests of a day.
struct SigningKey {
    credential: Arc<Credential>,
    /// "20261121/us-east-1/s3/aws4_request"
    scope: String,
    key: hmac::Key,
}

pub struct Signer {
    region: String,
    credentials: Arc<Credentials>,
    key: Mutex<Option<Arc<SigningKey>>>,
    time: Mutex<Option<Arc<Time>>>,
}

/// A second in the form of a signature.
struct Time {
    second: u64,
    text: String,
}

impl Signer {
    pub fn new(region: String, credentials: Arc<Credentials>) -> Self {
        Self {
            region,
            credentials,
            key: Mutex::default(),
            time: Mutex::default(),
        }
    }

    async fn add_to(&self, parts: &mut Parts) -> Signed {
        let Some(credential) = self.credentials.get().await? else {
            return Ok(None);
        };
        let time = self.time();
        let day = time.text.split('T').next().unwrap_or_default();
        let key = self.key_of(&credential, day);
        add_signature(parts, &key, &time.text)?;
        Ok(Some(credential))
    }

    fn time(&self) -> Arc<Time> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let second = since.map_or(0, |since| since.as_secs());
        let mut cached = self.time.lock().unwrap();
        match cached.as_ref() {
            Some(time) if time.second == second => time.clone(),
            _ => {
                let text = Timestamp::now().format_iso8601();
                cached.insert(Arc::new(Time { second, text })).clone()
            }
        }
    }

    pub async fn renew(&self, used: &Arc<Credential>) -> bool {
        self.credentials.renew(used).await
    }

    /// Called when the store rejected the cached credential.
    pub async fn renew_cached(&self) -> bool {
        match self.credentials.cached() {
            Some(used) => self.renew(&used).await,
            None => false,
        }
    }

    fn key_of(&self, credential: &Arc<Credential>, day: &str) -> Arc<SigningKey> {
        let mut cached = self.key.lock().unwrap();
        if let Some(key) = cached.as_ref() {
            if Arc::ptr_eq(&key.credential, credential) && key.scope.starts_with(day) {
                return key.clone();
            }
        }
        let key = Arc::new(derive(credential, day, &self.region));
        *cached = Some(key.clone());
        key
    }
}

impl SignRead for Signer {
    fn sign<'a>(&'a self, parts: &'a mut Parts) -> BoxFuture<'a, Signed> {
        Box::pin(self.add_to(parts))
    }
}

fn derive(credential: &Arc<Credential>, day: &str, region: &str) -> SigningKey {
    let mut secret = format!("AWS4{}", credential.secret_access_key).into_bytes();
    for part in [day, region, "s3", "aws4_request"] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        secret = hmac::sign(&key, part.as_bytes()).as_ref().to_vec();
    }
    SigningKey {
        credential: credential.clone(),
        scope: format!("{day}/{region}/s3/aws4_request"),
        key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
    }
}

fn add_signature(parts: &mut Parts, key: &SigningKey, time: &str) -> reqsign_core::Result<()> {
    let value = |text: &str| {
        HeaderValue::from_str(text)
            .map_err(|error| reqsign_core::Error::request_invalid(error.to_string()))
    };
    let secret = |text: &str| {
        value(text).map(|mut value| {
            value.set_sensitive(true);
            value
        })
    };
    let host = parts
        .uri
        .authority()
        .map(|a| a.as_str())
        .unwrap_or_default();
    parts.headers.insert(HOST, value(host)?);
    parts.headers.insert(DATE, value(time)?);
    parts
        .headers
        .insert(CONTENT, HeaderValue::from_static("UNSIGNED-PAYLOAD"));
    if let Some(token) = &key.credential.session_token {
        parts.headers.insert(TOKEN, secret(token)?);
    }

    let mut signed: Vec<(&str, &HeaderValue)> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    signed.sort_unstable_by_key(|(name, _)| *name);
    let mut names = String::with_capacity(128);
    for (name, _) in &signed {
        if !names.is_empty() {
            names.push(';');
        }
        names.push_str(name);
    }

    let mut request = String::with_capacity(1024);
    let _ = writeln!(request, "{}", parts.method);
    encode_again(parts.uri.path(), true, &mut request);
    request.push('\n');
    canonical_query(parts.uri.query().unwrap_or_default(), &mut request);
    request.push('\n');
    for (name, value) in &signed {
        let text = value
            .to_str()
            .map_err(|error| reqsign_core::Error::request_invalid(error.to_string()))?;
        let _ = write!(request, "{name}:");
        for (index, word) in text.split(' ').filter(|word| !word.is_empty()).enumerate() {
            let space = if index == 0 { "" } else { " " };
            let _ = write!(request, "{space}{word}");
        }
        request.push('\n');
    }
    let _ = write!(request, "\n{names}\nUNSIGNED-PAYLOAD");

    let mut to_sign = String::with_capacity(256);
    let _ = write!(to_sign, "AWS4-HMAC-SHA256\n{time}\n{}\n", key.scope);
    write_hex(
        digest::digest(&digest::SHA256, request.as_bytes()).as_ref(),
        &mut to_sign,
    );

    let mut authorization = String::with_capacity(256);
    let _ = write!(
        authorization,
        "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature=",
        key.credential.access_key_id, key.scope
    );
    write_hex(
        hmac::sign(&key.key, to_sign.as_bytes()).as_ref(),
        &mut authorization,
    );
    parts.headers.insert(AUTHORIZATION, secret(&authorization)?);
    Ok(())
}

/// Percent-encodes for the signature: everything but unreserved characters (RFC 3986, 2.3) and, in
/// a path, the slash.
fn encode_again(encoded: &str, keep_slash: bool, out: &mut String) {
    let bytes = encoded.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let mut at = 0;
    while at < bytes.len() {
        let (byte, used) = match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => ((high * 16 + low) as u8, 3),
            (byte, _, _) => (byte, 1),
        };
        at += used;
        let literal_slash = keep_slash && byte == b'/' && used == 1;
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || literal_slash {
            out.push(byte as char);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

fn canonical_query(query: &str, out: &mut String) {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let mut encoded = (String::new(), String::new());
            encode_again(name, false, &mut encoded.0);
            encode_again(value, false, &mut encoded.1);
            encoded
        })
        .collect();
    pairs.sort();
    for (index, (name, value)) in pairs.iter().enumerate() {
        let separator = if index == 0 { "" } else { "&" };
        let _ = write!(out, "{separator}{name}={value}");
    }
}

fn write_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[(byte >> 4) as usize] as char);
        out.push(DIGITS[(byte & 15) as usize] as char);
    }
}
