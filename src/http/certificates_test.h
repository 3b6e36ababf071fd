// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, created with OpenSSL in a directory that this object owns.
#pragma once

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/id128.h"
#include "http/tls.h"

namespace leat {

class Certificates {
 public:
  struct CertificateRequest {
    std::string name = "server";                              // common name
    std::string alternatives = "DNS:localhost,IP:127.0.0.1";  // none if empty
    int days = 1;                                             // from now; negative: expired
  };

  Certificates()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("leat_tls_" + Id128::random().to_hex())) {
    std::filesystem::create_directories(folder_);
    key_ = make_key();
    authority_ =
        make({.name = "CA " + Id128::random().to_hex(), .alternatives = ""}, key_.get(), nullptr);
    write("ca.pem", authority_.get());
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& file) const { return folder_ / file; }
  std::string ca() const { return path("ca.pem"); }

  // Writes `name`.pem and `name`.key, signed by this CA; replaces each atomically.
  HttpTlsOptions issue(const CertificateRequest& wanted) const {
    const auto key = make_key();
    write(wanted.name + ".pem", make(wanted, key.get(), authority_.get()).get());
    const std::string fresh = path(wanted.name + ".key.new");
    FILE* file = fopen(fresh.c_str(), "w");
    EXPECT_EQ(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
    fclose(file);
    std::filesystem::rename(fresh, path(wanted.name + ".key"));
    return {.certificate_file = path(wanted.name + ".pem"), .key_file = path(wanted.name + ".key")};
  }

 private:
  template <class T, void (*kFree)(T*)>
  struct Freed {
    void operator()(T* it) const { kFree(it); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
  using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;

  static Key make_key() { return Key(EVP_EC_gen("P-256")); }

  static void extend(X509* certificate, X509* issuer, int nid, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
    ASSERT_NE(extension, nullptr);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  // Without an issuer it is a CA.
  Certificate make(const CertificateRequest& wanted, EVP_PKEY* key, X509* issuer) const {
    Certificate made(X509_new());
    X509* certificate = made.get();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -10L * 24 * 3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wanted.days * 24L * 3600);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(wanted.name.c_str()), -1, -1,
                               0);
    X509_set_issuer_name(certificate, issuer != nullptr ? X509_get_subject_name(issuer) : subject);
    X509_set_pubkey(certificate, key);
    extend(certificate, issuer != nullptr ? issuer : certificate, NID_basic_constraints,
           issuer != nullptr ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (!wanted.alternatives.empty()) {
      extend(certificate, issuer, NID_subject_alt_name, wanted.alternatives.c_str());
    }
    EXPECT_GT(X509_sign(certificate, key_.get(), EVP_sha256()), 0);
    return made;
  }

  void write(const std::string& name, X509* certificate) const {
    const std::string fresh = path(name + ".new");
    FILE* file = fopen(fresh.c_str(), "w");
    EXPECT_EQ(PEM_write_X509(file, certificate), 1);
    fclose(file);
    std::filesystem::rename(fresh, path(name));
  }

  const std::filesystem::path folder_;
  mutable uint64_t serial_ = 0;
  Key key_;
  Certificate authority_;
};

}  // namespace leat
