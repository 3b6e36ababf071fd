// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_reads.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"
#include "runtime/io_ring.h"
#include "runtime/page_cache.h"
#include "runtime/shared_promise.h"
#include "source/file/file_pool.h"

namespace leat {
namespace {

// Maximum bytes per disk request. A cancelled caller waits for at most one request, since the
// kernel completes a started read. With smaller pieces, several readers of one file disturb the
// kernel's sequential detection, which is per descriptor. Two concurrent 4 MiB ranges took more
// than twice as long in pieces of 1 MiB.
constexpr size_t kPieceBytes = 8 << 20;
// Typical readahead of a file system, and so the size that arrives as one part.
constexpr size_t kOnePartBytes = 128 * 1024;

// Returns the ring of this process, which is separate from those of the cache's disks; null if
// io_uring is not permitted. Like the FilePool it is never destroyed.
IoRing* ring_of_process() {
  static IoRing* const ring = IoRing::create().release();
  return ring;
}

Error failed(int reason) {
  return Error(status_from_errno(reason, "cannot read an open file"));
}

Task<Result<size_t>> read_piece(Context context, SourceFilePtr file, uint64_t offset,
                                std::span<std::byte> into) {
  auto outcome = SharedPromise<int>::make();
  IoRing::Completion completion = [outcome](int result) { outcome->set(result); };
  IoRing* const ring = ring_of_process();
  const auto size = static_cast<unsigned>(into.size());
  const auto by = size > kOnePartBytes ? IoRing::Issuer::kWorker : IoRing::Issuer::kSubmitter;
  if (ring != nullptr && ring->read(file->fd(), into.data(), size, offset, completion, by)) {
    // Not the caller's context: the kernel uses the memory until it is done.
    Result<int> result = co_await outcome->wait(Context::background(), "a disk");
    if (*result < 0 && *result != -EINTR && *result != -EAGAIN) co_return failed(-*result);
    if (*result >= 0) co_return static_cast<size_t>(*result);
  }
  // io_uring is missing or its ring is full. A call of the pool may be abandoned, so it reads into
  // memory of its own.
  auto call = [file, offset, size]() -> Result<Bytes> {
    Buffer memory(size);
    ssize_t got;
    do {
      got = ::pread(file->fd(), memory.data(), size, static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    if (got < 0) return failed(errno);
    memory.truncate(static_cast<size_t>(got));
    return Bytes(std::move(memory));
  };
  Result<Bytes> bytes = co_await FilePool::of_process().run(context, "a read", call);
  if (!bytes) co_return Error(bytes.error());
  bytes->copy_to(into);
  co_return bytes->size();
}

}  // namespace

size_t read_page_cache(int fd, uint64_t offset, std::span<std::byte> into) {
  // A read with RWF_NOWAIT that misses disturbs the kernel's readahead: sequential 1 MiB reads took
  // three times as long, with up to eight times the CPU. So residency is checked first.
  if (into.size() > kOnePartBytes && !all_cached(fd, offset, into.size())) return 0;
  size_t done = 0;
  while (done < into.size()) {
    iovec rest{into.data() + done, into.size() - done};
    const ssize_t got = ::preadv2(fd, &rest, 1, static_cast<off_t>(offset + done), RWF_NOWAIT);
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Task<Result<size_t>> read_open_file(Context context, SourceFilePtr file, uint64_t offset,
                                    std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    LEAT_CO_CHECK_OK(context.check("a read"));
    std::span<std::byte> piece = into.subspan(done, std::min(kPieceBytes, into.size() - done));
    size_t got = read_page_cache(file->fd(), offset + done, piece);
    if (got < piece.size()) {
      const uint64_t at = offset + done + got;
      Result<size_t> more = co_await read_piece(context, file, at, piece.subspan(got));
      if (!more) co_return Error(more.error());
      if (*more == 0) co_return done + got;
      got += *more;
    }
    done += got;
  }
  co_return done;
}

}  // namespace leat
