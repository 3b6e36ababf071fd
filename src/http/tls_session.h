// SPDX-License-Identifier: Apache-2.0
// TlsSession: TLS of one connection over a non-blocking socket. Private to this module. Used by one
// coroutine at a time.
//
// Uses OpenSSL directly instead of boost::asio::ssl::stream. That copies every byte through two
// buffers of its own, and completes through the executor even without a wait.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "http/io_result.h"
#include "http/io_vector.h"

struct ssl_st;

namespace leat {

class TlsSession {
 public:
  struct Free {
    void operator()(ssl_st* session) const;
  };
  using Handle = std::unique_ptr<ssl_st, Free>;

  // `session` has its side and the expected peer.
  TlsSession(Handle session, int fd);

  IoResult handshake();
  IoResult read(std::span<std::byte> into);
  // Writes at most one record; `bytes` are consumed.
  IoResult write(IoVector& from);
  // Notifies the other end if that needs no wait.
  void end();

  // Returns the common name of the other end's verified certificate, or nothing.
  std::string peer_name() const;
  // The last error.
  const std::string& reason() const { return reason_; }
  // One side rejected the other's certificate.
  bool certificate_rejected() const { return certificate_rejected_; }
  // The other end uses plain HTTP.
  bool peer_sent_plaintext() const { return plaintext_; }

 private:
  IoResult outcome(int returned);

  const Handle session_;
  std::string reason_;
  bool certificate_rejected_ = false;
  bool plaintext_ = false;
  bool broken_ = false;
};

}  // namespace leat
