// SPDX-License-Identifier: Apache-2.0
#include "cache/segment.h"

#include <fmt/format.h>

namespace leat {

Segment::~Segment() {
  close_files();  // an unlinked file is on disk until then, and `charge` is given back after it
}

std::string Segment::name(uint32_t sequence, const char* suffix) {
  return fmt::format("segments/{:08x}{}", sequence, suffix);
}

Task<Result<>> Segment::append(std::shared_ptr<CacheDirectory> directory, std::string record) {
  std::shared_ptr<SharedResult<bool>> batch;
  bool lead;
  {
    std::lock_guard lock(mutex_);
    pending_ += record;
    if (batch_ == nullptr) batch_ = SharedResult<bool>::make();
    batch = batch_;
    lead = !std::exchange(writing_, true);
  }
  if (lead) co_await write_batches(directory);
  Result<bool> written = co_await batch->wait(Context::background(), "append to a segment's index");
  if (!written) co_return Error(written.error());
  co_return Result<>();
}

// The first who comes writes for all who come meanwhile.
Task<> Segment::write_batches(std::shared_ptr<CacheDirectory> directory) {
  for (;;) {
    std::string batch;
    std::shared_ptr<SharedResult<bool>> outcome;
    {
      std::lock_guard lock(mutex_);
      if (pending_.empty()) {
        writing_ = false;
        co_return;
      }
      batch.swap(pending_);
      outcome.swap(batch_);
    }
    Result<> written = co_await write_batch(directory, batch);
    if (written) {
      outcome->set(true);
    } else {
      outcome->set(Error(written.error()));
    }
  }
}

Task<Result<>> Segment::write_batch(std::shared_ptr<CacheDirectory> directory, std::string batch) {
  std::shared_ptr<Openable> self = shared_from_this();
  Result<OpenFilesPtr> files = co_await directory->descriptors.open(Context::background(), self);
  if (!files) co_return Error(files.error());
  Bytes bytes = Bytes::copy_of(batch);
  // A batch that failed is overwritten by the next one, so that the index has no gap.
  Result<> written = co_await directory->disk->write(Context::background(), (*files)->side.fd(),
                                                     bytes, index_bytes_);
  if (written) index_bytes_ += batch.size();
  co_return written;
}

}  // namespace leat
