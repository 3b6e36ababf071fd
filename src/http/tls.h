// SPDX-License-Identifier: Apache-2.0
// HttpTls: whom to trust and who we are, out of files, for clients and servers. TLS 1.2 and later.
// Thread-safe. Files that change are read again, at the earliest `look_every` after the last look;
// connections from then on use them, and those that cannot be used are logged and change nothing.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/context.h"

namespace leat {

class TlsSession;

struct HttpTlsOptions {
  // PEM, of those whose signature is believed. Empty: a client believes the system's, a server asks
  // for no certificate.
  std::string ca_file{};
  // PEM, ours and what lies between it and the other end's CA. A server needs it, and its key.
  std::string certificate_file{};
  std::string key_file{};
  // Whether the other end must prove who it is; a server demands it only with `ca_file`.
  bool verify_peer = true;
  Clock::duration look_every = std::chrono::seconds(1);
};

class HttpTls {
 public:
  // kInvalidArgument where a file cannot be used, naming it and what to do.
  static Result<std::shared_ptr<const HttpTls>> load(HttpTlsOptions options);
  virtual ~HttpTls() = default;

  virtual bool has_certificate() const = 0;
  // Private to the room. `host`, a name or an address, is what the server must prove to be.
  virtual Result<std::unique_ptr<TlsSession>> client_session(int fd,
                                                             const std::string& host) const = 0;
  virtual Result<std::unique_ptr<TlsSession>> server_session(int fd) const = 0;
};

}  // namespace leat
