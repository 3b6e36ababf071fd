// SPDX-License-Identifier: Apache-2.0
//! The trusted roots for TLS: one configuration for the stock client and for our own.
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The system's roots, or those of the file that AWS_CA_BUNDLE names; SSL_CERT_FILE and
/// SSL_CERT_DIR also replace the system's. Unreadable files are skipped: connections then fail with
/// an unknown issuer.
fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    match std::env::var_os("AWS_CA_BUNDLE").filter(|path| !path.is_empty()) {
        Some(bundle) => {
            if let Ok(found) = CertificateDer::pem_file_iter(PathBuf::from(bundle)) {
                roots.add_parsable_certificates(found.flatten());
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    roots
}

/// TLS 1.2 and 1.3 with session resumption. ALPN is not offered: all traffic is HTTP/1.1.
pub fn tls_config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("the provider has the default versions")
                .with_root_certificates(roots())
                .with_no_client_auth();
            Arc::new(config)
        })
        .clone()
}
