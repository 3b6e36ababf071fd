// SPDX-License-Identifier: Apache-2.0
// LyingServer over TLS: authorities created on the spot, the certificates that they issue, and the
// channel. The shim reads its trusted roots once per process, so the one authority that tests can
// make trusted is created before the first of them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "base/check.h"
#include "source/lying_server_test.h"

namespace leat::testing {

template <auto free>
struct FreeOf {
  void operator()(auto* thing) const { free(thing); }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeOf<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeOf<X509_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, FreeOf<SSL_CTX_free>>;

struct Identity {
  KeyPtr key;
  CertificatePtr certificate;
};

class CertificateAuthority {
 public:
  CertificateAuthority() : own_(make("an authority of a test", "CA:TRUE", {}, 3600, nullptr)) {}

  // `names` as OpenSSL writes them: "DNS:localhost,IP:127.0.0.1".
  Identity issue(const std::string& names, int lifetime_s = 3600) const {
    return make("a server of a test", "CA:FALSE", names, lifetime_s, &own_);
  }
  void save(const std::string& path) const {
    FILE* file = fopen(path.c_str(), "w");
    LEAT_CHECK(file != nullptr && PEM_write_X509(file, own_.certificate.get()) == 1);
    fclose(file);
  }

 private:
  static Identity make(const std::string& subject, const char* constraints,
                       const std::string& names, int lifetime_s, const Identity* issuer) {
    static std::atomic<long> serial = 1;
    Identity made{KeyPtr(EVP_EC_gen("P-256")), CertificatePtr(X509_new())};
    X509* certificate = made.certificate.get();
    if (issuer == nullptr) issuer = &made;
    X509_set_version(certificate, X509_VERSION_3);
    const long number = serial++;
    const std::string name = fmt::format("{} {}", subject, number);  // unique among certificates
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), number);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), lifetime_s);
    X509_set_pubkey(certificate, made.key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer->certificate.get()));
    add(certificate, NID_basic_constraints, constraints);
    if (!names.empty()) add(certificate, NID_subject_alt_name, names);
    LEAT_CHECK(X509_sign(certificate, issuer->key.get(), EVP_sha256()) > 0);
    return made;
  }
  static void add(X509* certificate, int what, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    LEAT_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }

  const Identity own_;
};

// The authority that the shim of this process trusts.
class TrustedAuthority : public ::testing::Environment {
 public:
  void SetUp() override {
    // A child reads from its parent's server.
    if (getenv("LEAT_TEST_ENDPOINT") != nullptr) return;
    bundle_ = fmt::format("{}leat_authority_{}.pem", ::testing::TempDir(), getpid());
    authority().save(bundle_);
    setenv("AWS_CA_BUNDLE", bundle_.c_str(), 1);
  }
  void TearDown() override {
    if (!bundle_.empty()) unlink(bundle_.c_str());
  }
  static const CertificateAuthority& authority() {
    static const CertificateAuthority made;
    return made;
  }

 private:
  std::string bundle_;
};

class TlsChannel : public Channel {
 public:
  explicit TlsChannel(SSL* ssl) : ssl_(ssl) {}
  ~TlsChannel() override { SSL_free(ssl_); }
  ssize_t receive(char* into, size_t size) override {
    return SSL_read(ssl_, into, static_cast<int>(size));
  }
  ssize_t send(std::string_view text) override {
    return SSL_write(ssl_, text.data(), static_cast<int>(text.size()));
  }
  void finish() override { SSL_shutdown(ssl_); }
  void renew_keys() override { SSL_key_update(ssl_, SSL_KEY_UPDATE_REQUESTED); }

 private:
  SSL* const ssl_;
};

// The certificate and TLS version that a server presents.
class TlsDress {
 public:
  explicit TlsDress(const Identity& identity, int version = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_server_method())) {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to closed connections
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    LEAT_CHECK(SSL_CTX_use_certificate(context_.get(), identity.certificate.get()) == 1);
    LEAT_CHECK(SSL_CTX_use_PrivateKey(context_.get(), identity.key.get()) == 1);
  }
  LyingServer::Dress dress() {
    return [this](int fd) -> std::unique_ptr<Channel> {
      SSL* ssl = SSL_new(context_.get());
      SSL_set_fd(ssl, fd);
      auto channel = std::make_unique<TlsChannel>(ssl);
      if (SSL_accept(ssl) != 1) return nullptr;
      resumed += SSL_session_reused(ssl);
      ++handshakes_;
      handshakes_.notify_all();
      return channel;
    };
  }
  // Waits until `count` handshakes are complete. With TLS 1.3 their session tickets are sent then.
  void await_handshakes(int count) const {
    for (int now = handshakes_; now < count; now = handshakes_) handshakes_.wait(now);
  }
  std::atomic<int> resumed = 0;  // connections that resumed a session

 private:
  const SslContextPtr context_;
  std::atomic<int> handshakes_ = 0;
};

}  // namespace leat::testing
