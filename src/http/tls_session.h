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
#include "http/pieces.h"

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

  IoResult shake_hands();
  IoResult read(std::span<std::byte> into);
  // Writes at most one record; `bytes` are consumed.
  IoResult write(Pieces& from);
  // Notifies the other end if that needs no wait.
  void end();

  // Returns the common name of the other end's verified certificate, or nothing.
  std::string peer_name() const;
  // The last error.
  const std::string& reason() const { return reason_; }
  // One side rejected the other's certificate.
  bool distrusted() const { return distrusted_; }
  // The other end uses plain HTTP.
  bool spoken_to_in_clear() const { return in_clear_; }

 private:
  IoResult outcome(int returned);

  const Handle session_;
  std::string reason_;
  bool distrusted_ = false;
  bool in_clear_ = false;
  bool broken_ = false;
};

}  // namespace leat
