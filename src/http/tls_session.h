// SPDX-License-Identifier: Apache-2.0
// TlsSession: TLS of one connection over a socket that does not block. Private to this room. Used
// by one coroutine at a time.
//
// OpenSSL directly and not boost::asio::ssl::stream, which moves every byte through a pair of
// buffers of its own and completes through the executor even what needs no waiting.
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

  // `session` knows which side it is on and whom it expects.
  TlsSession(Handle session, int fd);

  IoResult shake_hands();
  IoResult read(std::span<std::byte> into);
  // One record, at most; `bytes` are consumed.
  IoResult write(Pieces& from);
  // Tells the other end, if it can be done without waiting.
  void end();

  // The common name of the verified certificate of the other end, or nothing.
  std::string peer_name() const;
  // What went wrong last.
  const std::string& reason() const { return reason_; }
  // The other end's certificate was not believed, or it did not believe ours.
  bool distrusted() const { return distrusted_; }
  // The other end says HTTP in clear.
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
