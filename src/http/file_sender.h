// SPDX-License-Identifier: Apache-2.0
// FileSender: sends a part of a file as the body of a response. Private to this module.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "http/message.h"
#include "http/stream.h"
#include "runtime/executor.h"

namespace leat {

class FileSender {
 public:
  // All arguments outlive it.
  FileSender(Stream& stream, HttpFileBody file, Clock::duration write_timeout, Executor& executor)
      : stream_(stream),
        file_(std::move(file)),
        write_timeout_(write_timeout),
        executor_(executor) {}

  // Sends `head` and then the file. Returns false if not all was sent.
  Task<bool> send(std::string head);

 private:
  // Bytes that a call moved, or an errno.
  struct TransferResult {
    ssize_t bytes;
    int error;
  };

  Task<bool> send_copied(std::string head);
  Task<bool> send_in_kernel(std::string head);
  Task<TransferResult> move_some(size_t size);
  Task<TransferResult> read_some(std::byte* into, size_t size);
  template <class Call>
  Task<TransferResult> run_blocking(Call call);

  Stream& stream_;
  HttpFileBody file_;  // the unsent part
  const Clock::duration write_timeout_;
  Executor& executor_;
  uint64_t warm_until_ = 0;  // in the page cache at the last check
};

}  // namespace leat
