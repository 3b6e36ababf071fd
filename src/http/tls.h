// SPDX-License-Identifier: Apache-2.0
// HttpTls: trusted authorities and the own certificate, from files, for clients and servers. TLS
// 1.2 and later. Thread-safe. Changed files are read again, at the earliest `check_interval` after
// the last check. Later connections use them. Unusable files are logged and change nothing.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/context.h"

namespace leat {

class TlsSession;

struct HttpTlsOptions {
  // PEM of trusted authorities. Empty: a client trusts the system's, a server requests no
  // certificate.
  std::string ca_file{};
  // PEM of the own certificate and its intermediates. A server needs it, and its key.
  std::string certificate_file{};
  std::string key_file{};
  // Whether the other end must be authenticated; a server requires that only with `ca_file`.
  bool verify_peer = true;
  Clock::duration check_interval = std::chrono::seconds(1);
};

class HttpTls {
 public:
  // Returns kInvalidArgument for an unusable file, naming it and the remedy.
  static Result<std::shared_ptr<const HttpTls>> load(HttpTlsOptions options);
  virtual ~HttpTls() = default;

  virtual bool has_certificate() const = 0;
  // Private to this module. The server must prove to be `host`, a name or an address.
  virtual Result<std::unique_ptr<TlsSession>> client_session(int fd,
                                                             const std::string& host) const = 0;
  virtual Result<std::unique_ptr<TlsSession>> server_session(int fd) const = 0;
};

}  // namespace leat
