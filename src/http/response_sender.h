// SPDX-License-Identifier: Apache-2.0
// ResponseSender: sends the responses of one connection from any kind of body. Private to this
// module.
#pragma once

#include <memory>

#include "http/message.h"
#include "http/stream.h"
#include "runtime/executor.h"

namespace leat {

class ResponseSender {
 public:
  // How the request requires its response to be sent.
  struct Options {
    bool keep_alive = true;
    bool chunks = true;      // HTTP/1.0 does not know them
    bool head_only = false;  // HEAD
  };

  // `executor` outlives it.
  ResponseSender(std::shared_ptr<Stream> stream, Clock::duration write_timeout, Executor& executor)
      : stream_(std::move(stream)), write_timeout_(write_timeout), executor_(executor) {}

  // Returns true if all was sent and the connection may continue.
  Task<bool> send(HttpResponse response, Options options);

 private:
  Task<bool> send_memory(HttpResponse response, std::string head, bool keep_alive);
  Task<bool> send_file(HttpFileBody file, std::string head, bool keep_alive);
  Task<bool> send_chunks(HttpResponse response, std::string head, Options options);
  Task<bool> send_length(HttpResponse response, std::string head, bool keep_alive);

  const std::shared_ptr<Stream> stream_;
  const Clock::duration write_timeout_;
  Executor& executor_;
};

}  // namespace leat
