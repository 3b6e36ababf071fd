// SPDX-License-Identifier: Apache-2.0
#include "http/tls.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <optional>

#include "http/tls_session.h"
#include "telemetry/log.h"

namespace leat {
namespace {

using ContextPtr = std::shared_ptr<SSL_CTX>;

Error unusable(const std::string& file, const char* what, const char* advice) {
  const unsigned long failure = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(failure);
  return error(StatusCode::kInvalidArgument,
               fmt::format("cannot use {} as {}: {}; {}", file, what,
                           reason != nullptr ? reason : "it is not PEM", advice));
}

Result<> readable(const std::string& file, const char* what) {
  if (::access(file.c_str(), R_OK) == 0) return {};
  return error(StatusCode::kInvalidArgument,
               fmt::format("cannot read {} from {}: {}; give a PEM file that this user may read",
                           what, file, std::system_category().message(errno)));
}

Result<> load_authorities(SSL_CTX* context, const HttpTlsOptions& options) {
  if (options.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return {};
  }
  constexpr const char* kWhat = "the trusted certificates";
  LEAT_CHECK_OK(readable(options.ca_file, kWhat));
  if (SSL_CTX_load_verify_locations(context, options.ca_file.c_str(), nullptr) != 1) {
    return unusable(options.ca_file, kWhat, "give a PEM file with one or more certificates");
  }
  // A server sends its clients the list of trusted authorities.
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(options.ca_file.c_str()));
  return {};
}

Result<> load_identity(SSL_CTX* context, const HttpTlsOptions& options) {
  if (options.certificate_file.empty() && options.key_file.empty()) return {};
  if (options.certificate_file.empty() || options.key_file.empty()) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} is not enough; give both a certificate and its key",
                             options.certificate_file + options.key_file));
  }
  LEAT_CHECK_OK(readable(options.certificate_file, "a certificate"));
  LEAT_CHECK_OK(readable(options.key_file, "a certificate's key"));
  if (SSL_CTX_use_certificate_chain_file(context, options.certificate_file.c_str()) != 1) {
    return unusable(options.certificate_file, "a certificate",
                    "give a PEM file that begins with this host's certificate");
  }
  if (SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return unusable(
        options.key_file, "a certificate's key",
        fmt::format("give the key of {}, in PEM and without a password", options.certificate_file)
            .c_str());
  }
  return {};
}

Result<ContextPtr> make_context(const HttpTlsOptions& options) {
  ERR_clear_error();
  ContextPtr context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr) return error(StatusCode::kInternal, "OpenSSL makes no context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                         SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Connections are kept, so sessions are not cached. A session would also outlive the certificates
  // that it began with.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // A daemon cannot prompt for a password.
  SSL_CTX_set_default_passwd_cb(context.get(), [](char*, int, int, void*) { return 0; });
  LEAT_CHECK_OK(load_authorities(context.get(), options));
  LEAT_CHECK_OK(load_identity(context.get(), options));
  return context;
}

// Identifies one state of the files.
using Stamp = std::array<int64_t, 12>;

Stamp stamp_of(const HttpTlsOptions& options) {
  Stamp stamp{};
  size_t at = 0;
  for (const std::string* file : {&options.ca_file, &options.certificate_file, &options.key_file}) {
    struct stat found{};
    if (!file->empty() && ::stat(file->c_str(), &found) == 0) {
      stamp[at] = found.st_mtim.tv_sec;
      stamp[at + 1] = found.st_mtim.tv_nsec;
      stamp[at + 2] = static_cast<int64_t>(found.st_ino);
      stamp[at + 3] = found.st_size;
    }
    at += 4;
  }
  return stamp;
}

bool is_address(const std::string& host) {
  std::array<std::byte, sizeof(in6_addr)> ignored;
  return inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

class HttpTlsImpl : public HttpTls {
 public:
  HttpTlsImpl(HttpTlsOptions options, Stamp stamp, ContextPtr context)
      : options_(std::move(options)), stamp_(stamp), context_(std::move(context)) {}

  bool has_certificate() const override { return !options_.certificate_file.empty(); }

  Result<std::unique_ptr<TlsSession>> client_session(int fd,
                                                     const std::string& host) const override {
    LEAT_TRY(TlsSession::Handle session, new_session());
    SSL_set_connect_state(session.get());
    const bool address = is_address(host);
    if (!address) SSL_set_tlsext_host_name(session.get(), host.c_str());
    if (options_.verify_peer) {
      SSL_set_verify(session.get(), SSL_VERIFY_PEER, nullptr);
      X509_VERIFY_PARAM* wanted = SSL_get0_param(session.get());
      X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      const int set = address ? X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str())
                              : X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
      if (set != 1) {
        return error(StatusCode::kInvalidArgument,
                     fmt::format("'{}' is no name that a certificate could prove", host));
      }
    }
    return std::make_unique<TlsSession>(std::move(session), fd);
  }

  Result<std::unique_ptr<TlsSession>> server_session(int fd) const override {
    LEAT_TRY(TlsSession::Handle session, new_session());
    SSL_set_accept_state(session.get());
    if (options_.verify_peer && !options_.ca_file.empty()) {
      SSL_set_verify(session.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return std::make_unique<TlsSession>(std::move(session), fd);
  }

 private:
  Result<TlsSession::Handle> new_session() const {
    const ContextPtr context = current();
    TlsSession::Handle session(SSL_new(context.get()));
    if (session == nullptr) return error(StatusCode::kInternal, "OpenSSL makes no session");
    return session;
  }

  ContextPtr current() const {
    std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (now - checked_at_ < options_.check_interval) return context_;
    checked_at_ = now;
    const Stamp stamp = stamp_of(options_);
    if (stamp == stamp_) return context_;
    stamp_ = stamp;
    Result<ContextPtr> loaded = make_context(options_);
    if (loaded) {
      context_ = std::move(*loaded);
      log::info("read the changed certificates of {}",
                options_.certificate_file.empty() ? options_.ca_file : options_.certificate_file);
    } else {
      log::warning("cannot load the changed certificates, keeping the previous ones: {}",
                   loaded.error().to_string());
    }
    return context_;
  }

  const HttpTlsOptions options_;
  mutable std::mutex mutex_;  // leaf
  mutable Clock::time_point checked_at_ = Clock::now();
  mutable Stamp stamp_;
  mutable ContextPtr context_;
};

}  // namespace

Result<std::shared_ptr<const HttpTls>> HttpTls::load(HttpTlsOptions options) {
  const Stamp stamp = stamp_of(options);
  LEAT_TRY(ContextPtr context, make_context(options));
  return std::make_shared<const HttpTlsImpl>(std::move(options), stamp, std::move(context));
}

}  // namespace leat
