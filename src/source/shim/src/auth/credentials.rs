// SPDX-License-Identifier: Apache-2.0
//! Credentials of an S3 store: reqsign's providers find them, this caches them for a limited time.
use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use reqsign_aws_v4::Credential;
use reqsign_core::time::Timestamp;
use reqsign_core::{
    Context, Env, Error, HttpSend, OsEnv, ProvideCredential, ProvideCredentialDyn, Result,
    SigningCredential,
};
use reqsign_file_read_tokio::TokioFileRead;

use crate::attempt::exchange::{EXCHANGE, Exchange, Purpose};
use crate::auth::credential_process::ThreadedCommand;
use crate::core::timeouts::Timeouts;

/// Refresh interval of credentials without an expiry: users change files and the environment.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// A store that rejects everything must not make us read files for each request.
const DOUBT_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// For all providers together; the machine's role is requested over the network.
const ASK_MAX: Duration = Duration::from_secs(8);

struct Known {
    credential: Arc<Credential>,
    since: Instant,
    /// When the store last rejected it.
    refused: Option<Instant>,
    /// Refresh at once.
    doubted: bool,
    /// When the providers last failed: the cached credential stays in use for a while.
    failed: Option<Instant>,
}

impl Known {
    fn is_fresh(&self) -> bool {
        let lasts = self.credential.expires_in.is_some();
        !self.doubted
            && self.credential.is_valid()
            && (lasts || self.since.elapsed() < READ_AGAIN_AFTER)
    }

    fn is_usable(&self) -> bool {
        self.credential.is_valid_at(Timestamp::now())
    }

    fn has_just_failed(&self) -> bool {
        self.failed
            .is_some_and(|when| when.elapsed() < DOUBT_AGAIN_AFTER)
    }
}

/// The process's environment. An empty variable counts as unset, as in AWS's own tools. So does one
/// that is not UTF-8: OsEnv would abort the process.
#[derive(Debug)]
struct Variables;

impl Env for Variables {
    fn var(&self, key: &str) -> Option<String> {
        OsEnv.var(key).filter(|value| !value.is_empty())
    }

    fn vars(&self) -> HashMap<String, String> {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        OsEnv.home_dir()
    }
}

/// Shared by everything that signs for one store.
pub struct Credentials {
    provider: Arc<dyn ProvideCredentialDyn<Credential = Credential>>,
    context: Context,
    known: RwLock<Option<Known>>,
    /// Held during a request to the provider, so that all waiters share one request.
    asking: tokio::sync::Mutex<()>,
    /// A refresh is in flight in the background.
    refreshing: AtomicBool,
}

impl Credentials {
    pub fn new(
        provider: impl ProvideCredential<Credential = Credential>,
        transport: impl HttpSend,
    ) -> Arc<Self> {
        Arc::new(Self {
            provider: Arc::new(provider),
            context: Context::new()
                .with_file_read(TokioFileRead)
                .with_http_send(transport)
                .with_command_execute(ThreadedCommand)
                .with_env(Variables),
            known: RwLock::default(),
            asking: tokio::sync::Mutex::default(),
            refreshing: AtomicBool::new(false),
        })
    }

    /// Returns None if no provider has a credential. A caller with a working credential does not
    /// wait for the next one. A caller that gives up does not affect the others.
    pub async fn get(self: &Arc<Self>) -> Result<Option<Arc<Credential>>> {
        if let Some(known) = self.fresh() {
            return Ok(Some(known));
        }
        let asking = self.clone();
        if let Some(known) = self.working() {
            if !self.refreshing.swap(true, Ordering::AcqRel) {
                tokio::spawn(async move {
                    let _ = asking.ask_in_turn().await;
                    asking.refreshing.store(false, Ordering::Release);
                });
            }
            return Ok(Some(known));
        }
        let asked = tokio::spawn(async move { asking.ask_in_turn().await });
        asked
            .await
            .unwrap_or_else(|_| Err(Error::unexpected("nobody asked for credentials")))
    }

    async fn ask_in_turn(&self) -> Result<Option<Arc<Credential>>> {
        let _asking = self.asking.lock().await;
        if let Some(known) = self.fresh() {
            return Ok(Some(known));
        }
        match self.ask().await {
            Ok(Some(credential)) => Ok(Some(self.remember(credential))),
            // A file that is just being replaced does not invalidate a working credential.
            Ok(None) => Ok(self.still_usable()),
            Err(error) => self.still_usable().map(Some).ok_or(error),
        }
    }

    /// Uses its own exchange: its traffic does not belong to the read that waits for it.
    async fn ask(&self) -> Result<Option<Credential>> {
        let timeouts = Timeouts::both(ASK_MAX);
        let exchange = Exchange::new(Purpose::Other, timeouts);
        let asked = EXCHANGE.scope(
            exchange,
            self.provider.provide_credential_dyn(&self.context),
        );
        let asked = tokio::time::timeout(ASK_MAX, asked).await;
        asked.unwrap_or_else(|_| Err(Error::unexpected("no answer about credentials")))
    }

    /// The store rejected `used`. Returns whether there is another credential now.
    pub async fn renew(self: &Arc<Self>, used: &Arc<Credential>) -> bool {
        self.doubt(used);
        match self.get().await {
            Ok(Some(now)) => !same(&now, used),
            _ => false,
        }
    }

    fn doubt(&self, used: &Credential) {
        let mut known = self.known.write().unwrap();
        let Some(known) = known.as_mut().filter(|one| same(&one.credential, used)) else {
            return;
        };
        let again = |when: Instant| when.elapsed() >= DOUBT_AGAIN_AFTER;
        if known.refused.is_none_or(again) {
            known.refused = Some(Instant::now());
            known.doubted = true;
        }
    }

    fn fresh(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        let known = known.as_ref()?;
        let good = known.is_fresh() || known.has_just_failed() && known.is_usable();
        good.then(|| known.credential.clone())
    }

    /// The cached credential, if it may be used during a refresh: the store has not rejected it.
    fn working(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        let known = known.as_ref()?;
        (!known.doubted && known.is_usable()).then(|| known.credential.clone())
    }

    pub fn known(&self) -> Option<Arc<Credential>> {
        let known = self.known.read().unwrap();
        known.as_ref().map(|known| known.credential.clone())
    }

    /// The cached credential, for use when the providers fail.
    fn still_usable(&self) -> Option<Arc<Credential>> {
        let mut known = self.known.write().unwrap();
        let known = known.as_mut().filter(|known| known.is_usable())?;
        known.failed = Some(Instant::now());
        Some(known.credential.clone())
    }

    /// An equal credential keeps its Arc, so that values derived from it stay valid.
    fn remember(&self, found: Credential) -> Arc<Credential> {
        let mut known = self.known.write().unwrap();
        let (credential, refused) = match known.take() {
            Some(before) if same(&before.credential, &found) => (before.credential, before.refused),
            _ => (Arc::new(found), None),
        };
        *known = Some(Known {
            credential: credential.clone(),
            since: Instant::now(),
            refused,
            doubted: false,
            failed: None,
        });
        credential
    }
}

fn same(a: &Credential, b: &Credential) -> bool {
    a.access_key_id == b.access_key_id
        && a.secret_access_key == b.secret_access_key
        && a.session_token == b.session_token
        && a.expires_in == b.expires_in
}

/// The same credentials for OpenDAL's signer, which caches them until shortly before their expiry.
pub struct SharedCredentials(pub Arc<Credentials>);

impl std::fmt::Debug for SharedCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedCredentials")
    }
}

impl ProvideCredential for SharedCredentials {
    type Credential = Credential;

    fn provide_credential(
        &self,
        _: &Context,
    ) -> impl Future<Output = Result<Option<Credential>>> + Send {
        let credentials = self.0.clone();
        async move {
            let found = credentials.get().await?;
            Ok(found.map(|credential| {
                let mut short = Credential::clone(&credential);
                // The signer renews two minutes before the expiry, so this one lasts for a second.
                let soon = Timestamp::now() + Duration::from_secs(121);
                short.expires_in = Some(short.expires_in.map_or(soon, |end| end.min(soon)));
                short
            }))
        }
    }
}
