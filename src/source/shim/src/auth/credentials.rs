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
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// A store that rejects everything must not make us read files for each request.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// For all providers together; the machine's role is requested over the network.
const LOAD_TIMEOUT: Duration = Duration::from_secs(8);

struct Cached {
    credential: Arc<Credential>,
    since: Instant,
    /// When the store last rejected it.
    rejected: Option<Instant>,
    /// Refresh at once.
    stale: bool,
    /// When the providers last failed: the cached credential stays in use for a while.
    failed: Option<Instant>,
}

impl Cached {
    fn is_fresh(&self) -> bool {
        let expires = self.credential.expires_in.is_some();
        !self.stale
            && self.credential.is_valid()
            && (expires || self.since.elapsed() < REFRESH_INTERVAL)
    }

    fn is_usable(&self) -> bool {
        self.credential.is_valid_at(Timestamp::now())
    }

    fn has_just_failed(&self) -> bool {
        self.failed
            .is_some_and(|when| when.elapsed() < RETRY_INTERVAL)
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
    cached: RwLock<Option<Cached>>,
    /// Held during a request to the provider, so that all waiters share one request.
    loading: tokio::sync::Mutex<()>,
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
            cached: RwLock::default(),
            loading: tokio::sync::Mutex::default(),
            refreshing: AtomicBool::new(false),
        })
    }

    /// Returns None if no provider has a credential. A caller with a working credential does not
    /// wait for the next one. A caller that gives up does not affect the others.
    pub async fn get(self: &Arc<Self>) -> Result<Option<Arc<Credential>>> {
        if let Some(cached) = self.fresh() {
            return Ok(Some(cached));
        }
        let loading = self.clone();
        if let Some(cached) = self.working() {
            if !self.refreshing.swap(true, Ordering::AcqRel) {
                tokio::spawn(async move {
                    let _ = loading.load_shared().await;
                    loading.refreshing.store(false, Ordering::Release);
                });
            }
            return Ok(Some(cached));
        }
        let loaded = tokio::spawn(async move { loading.load_shared().await });
        loaded
            .await
            .unwrap_or_else(|_| Err(Error::unexpected("the request for credentials was dropped")))
    }

    async fn load_shared(&self) -> Result<Option<Arc<Credential>>> {
        let _loading = self.loading.lock().await;
        if let Some(cached) = self.fresh() {
            return Ok(Some(cached));
        }
        match self.load().await {
            Ok(Some(credential)) => Ok(Some(self.store(credential))),
            // A file that is just being replaced does not invalidate a working credential.
            Ok(None) => Ok(self.still_usable()),
            Err(error) => self.still_usable().map(Some).ok_or(error),
        }
    }

    /// Uses its own exchange: its traffic does not belong to the read that waits for it.
    async fn load(&self) -> Result<Option<Credential>> {
        let timeouts = Timeouts::both(LOAD_TIMEOUT);
        let exchange = Exchange::new(Purpose::Other, timeouts);
        let loaded = EXCHANGE.scope(
            exchange,
            self.provider.provide_credential_dyn(&self.context),
        );
        let loaded = tokio::time::timeout(LOAD_TIMEOUT, loaded).await;
        loaded.unwrap_or_else(|_| {
            Err(Error::unexpected(
                "the credential providers did not answer in time",
            ))
        })
    }

    /// The store rejected `used`. Returns whether there is another credential now.
    pub async fn renew(self: &Arc<Self>, used: &Arc<Credential>) -> bool {
        self.mark_stale(used);
        match self.get().await {
            Ok(Some(now)) => !same(&now, used),
            _ => false,
        }
    }

    fn mark_stale(&self, used: &Credential) {
        let mut cached = self.cached.write().unwrap();
        let Some(cached) = cached.as_mut().filter(|one| same(&one.credential, used)) else {
            return;
        };
        let again = |when: Instant| when.elapsed() >= RETRY_INTERVAL;
        if cached.rejected.is_none_or(again) {
            cached.rejected = Some(Instant::now());
            cached.stale = true;
        }
    }

    fn fresh(&self) -> Option<Arc<Credential>> {
        let cached = self.cached.read().unwrap();
        let cached = cached.as_ref()?;
        let good = cached.is_fresh() || cached.has_just_failed() && cached.is_usable();
        good.then(|| cached.credential.clone())
    }

    /// The cached credential, if it may be used during a refresh: the store has not rejected it.
    fn working(&self) -> Option<Arc<Credential>> {
        let cached = self.cached.read().unwrap();
        let cached = cached.as_ref()?;
        (!cached.stale && cached.is_usable()).then(|| cached.credential.clone())
    }

    pub fn cached(&self) -> Option<Arc<Credential>> {
        let cached = self.cached.read().unwrap();
        cached.as_ref().map(|cached| cached.credential.clone())
    }

    /// The cached credential, for use when the providers fail.
    fn still_usable(&self) -> Option<Arc<Credential>> {
        let mut cached = self.cached.write().unwrap();
        let cached = cached.as_mut().filter(|cached| cached.is_usable())?;
        cached.failed = Some(Instant::now());
        Some(cached.credential.clone())
    }

    /// An equal credential keeps its Arc, so that values derived from it stay valid.
    fn store(&self, found: Credential) -> Arc<Credential> {
        let mut cached = self.cached.write().unwrap();
        let (credential, rejected) = match cached.take() {
            Some(before) if same(&before.credential, &found) => {
                (before.credential, before.rejected)
            }
            _ => (Arc::new(found), None),
        };
        *cached = Some(Cached {
            credential: credential.clone(),
            since: Instant::now(),
            rejected,
            stale: false,
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
