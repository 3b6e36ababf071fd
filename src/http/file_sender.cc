// SPDX-License-Identifier: Apache-2.0
// Invariant: no executor thread waits for a disk. A thread that may block moves bytes that are not
// in the page cache.
#include "http/file_sender.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>

#include "base/units.h"
#include "runtime/blocking_pool.h"
#include "runtime/page_cache.h"

namespace leat {
namespace {

// Up to this size a copy costs no more than sendfile(2). Measured (leat_bench_http, µs of the
// server's thread per request, copied and sent): 4 KiB 4.3, 4.6; 16 KiB 4.8, 4.8; 64 KiB 7.0, 5.9.
constexpr size_t kCopiedBytesMax = 16 * kKiB;
// Bytes that a thread moves, or that are checked in the page cache, at once.
constexpr size_t kPieceBytes = 1 * kMiB;
constexpr size_t kCopiedPieceBytes = 256 * kKiB;

// sendfile(2) to a closed connection raises SIGPIPE and has no flag against it.
void ignore_broken_pipes() {
  thread_local const bool blocked = [] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0;
  }();
  static_cast<void>(blocked);
}

}  // namespace

template <class Call>
Task<FileSender::TransferResult> FileSender::run_blocking(Call call) {
  stream_.expires_never();  // a slow disk is not the client's fault
  if (file_.threads == nullptr) {
    TransferResult moved = co_await executor_.blocking(std::move(call));
    co_return moved;
  }
  auto job = [call = std::move(call)]() mutable -> Result<TransferResult> { return call(); };
  Result<TransferResult> moved = co_await file_.threads->run(std::move(job));
  co_return moved.value_or(TransferResult{-1, EIO});
}

Task<bool> FileSender::send(std::string head) {
  if (stream_.is_secure() || file_.size <= kCopiedBytesMax) return send_copied(std::move(head));
  return send_in_kernel(std::move(head));
}

Task<FileSender::TransferResult> FileSender::read_some(std::byte* into, size_t size) {
  iovec piece{into, size};
  const auto offset = static_cast<off_t>(file_.offset);
  const ssize_t now = ::preadv2(file_.fd, &piece, 1, offset, RWF_NOWAIT);
  if (now > 0) co_return TransferResult{now, 0};
  const int fd = file_.fd;
  auto read = [fd, into, size, offset]() -> TransferResult {
    const ssize_t bytes = ::pread(fd, into, size, offset);
    return {bytes, bytes < 0 ? errno : 0};
  };
  TransferResult moved = co_await run_blocking(read);
  co_return moved;
}

Task<bool> FileSender::send_copied(std::string head) {
  const size_t piece_bytes = std::min<uint64_t>(file_.size, kCopiedPieceBytes);
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(piece_bytes);
  bool whole = true;
  do {
    const size_t wanted = std::min<uint64_t>(file_.size, piece_bytes);
    size_t filled = 0;
    while (whole && filled < wanted) {
      const TransferResult moved = co_await read_some(piece.get() + filled, wanted - filled);
      whole = moved.bytes > 0;
      if (!whole) break;
      filled += static_cast<size_t>(moved.bytes);
      file_.offset += static_cast<uint64_t>(moved.bytes);
      file_.size -= static_cast<uint64_t>(moved.bytes);
    }
    IoVector pieces(head);
    pieces.add(piece.get(), filled);
    IoResult sent = stream_.write_now(pieces, false);
    if (sent.waits()) {
      sent = co_await stream_.write_all(std::move(pieces), {.timeout = write_timeout_});
    }
    if (!sent.done()) co_return false;
    head.clear();
  } while (whole && file_.size > 0);
  co_return whole;
}

// Errors of the socket and of the file cannot be distinguished; both end the connection.
Task<FileSender::TransferResult> FileSender::move_some(size_t size) {
  const int socket = stream_.fd(), fd = file_.fd;
  auto offset = static_cast<off_t>(file_.offset);
  auto move = [socket, fd, offset, size]() mutable -> TransferResult {
    ignore_broken_pipes();
    const ssize_t bytes = ::sendfile(socket, fd, &offset, size);
    return {bytes, bytes < 0 ? errno : 0};
  };
  if (file_.offset + size > warm_until_ && all_cached(fd, file_.offset, size)) {
    warm_until_ = file_.offset + size;
  }
  if (file_.offset + size <= warm_until_) co_return move();
  auto bring_and_move = [fd, offset, size, move]() mutable -> TransferResult {
    ::posix_fadvise(fd, offset, static_cast<off_t>(size), POSIX_FADV_WILLNEED);
    return move();
  };
  TransferResult moved = co_await run_blocking(bring_and_move);
  co_return moved;
}

Task<bool> FileSender::send_in_kernel(std::string head) {
  IoVector pieces(head);
  IoResult sent =
      co_await stream_.write_all(std::move(pieces), {.more = true, .timeout = write_timeout_});
  if (!sent.done()) co_return false;
  std::optional<Clock::time_point> until;  // time limit of the client's next progress
  size_t piece = 0;                        // what is left of the current piece
  while (file_.size > 0) {
    if (piece == 0) piece = std::min<uint64_t>(file_.size, kPieceBytes);
    const TransferResult moved = co_await move_some(piece);
    if (moved.bytes > 0) {
      file_.offset += static_cast<uint64_t>(moved.bytes);
      file_.size -= static_cast<uint64_t>(moved.bytes);
      piece -= static_cast<size_t>(moved.bytes);
      until.reset();
      continue;
    }
    // A file that is shorter than announced cannot be completed.
    if (moved.bytes == 0 || (moved.error != EAGAIN && moved.error != EINTR)) co_return false;
    if (!until) until = Stream::after(write_timeout_);
    stream_.expires_at(*until);
    co_await stream_.wait_for(IoResult::kWaitWrite);
  }
  co_return true;
}

}  // namespace leat
