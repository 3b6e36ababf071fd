// SPDX-License-Identifier: Apache-2.0
// PartStream: the upload of a new file, begun while a program still writes it in order. A node has
// one until its next save, which completes it. If bytes that were sent have changed, or the file
// got other attributes or another name, the save sends the whole file instead. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "source/part_writer.h"
#include "source/source.h"
#include "vfs/writing/staged/staged_file.h"

namespace leat {

class PartStream : public std::enable_shared_from_this<PartStream> {
 public:
  // Bytes that are written in order before an upload begins.
  static constexpr uint64_t kBeginBytes = 2 * PartWriter::kPartBytes;
  // Uploads of one folder at a time: each holds parts in memory until its file is closed.
  static constexpr int kStreamsMax = 8;

  // Counts the uploads of a folder.
  using Slots = std::shared_ptr<std::atomic<int>>;

  // Sends nothing. `compared`: the request's condition, as far as the store compares it. Returns
  // null if there are too many, or the store cannot begin one.
  static std::shared_ptr<PartStream> begin(SourcePtr source, const SourceCapabilities& store,
                                           WriteRequest request, WriteCondition compared,
                                           std::shared_ptr<StagedFile> content, Slots slots);
  // The store forgets the parts of one that was not completed.
  ~PartStream() { --*slots_; }

  // Returns whether it makes the object that a save of this content with this request makes.
  bool fits(const WriteRequest& request, const StagedFile* content) const;
  // Returns whether it can still be completed.
  bool is_intact() const { return !stopped_ && content_->is_order_intact(); }
  // The file's times stay those at the begin, which the object gets. This is the time of the last
  // write since, for a file that is sent as a whole after all.
  void note_write(WallTime now) { last_write_ = now; }
  std::optional<WallTime> last_write() const;
  // Sends what is written by now, in the background, until `stopped`.
  void advance(Executor& executor, Gate& gate, std::stop_token stopped);
  void stop() { stopped_ = true; }
  // Sends the rest. Returns nothing if the object has to be sent as a whole.
  Task<Result<std::optional<SourceObject>>> finish(Context context);

 private:
  struct Private {};

 public:
  PartStream(Private, SourcePtr source, const SourceCapabilities& store, WriteRequest request,
             ObjectWriterPtr writer, std::shared_ptr<StagedFile> content, Slots slots);

 private:
  static Task<> pump(std::shared_ptr<PartStream> self, Gate::Holder holder, Context context);
  uint64_t part_bytes() const;
  // With the permit.
  Task<Result<>> send(Context context, ByteRange part);

  const SourcePtr source_;
  const SourceCapabilities store_;
  const WriteRequest request_;
  const std::shared_ptr<StagedFile> content_;
  const Slots slots_;
  const ObjectWriterPtr writer_;
  std::atomic<bool> stopped_ = false;
  std::atomic<WallTime> last_write_ = WallTime::min();
  Semaphore sending_{1};
  std::mutex mutex_;  // before that of the content
  bool pumping_ = false;
  // Parts that were taken so far.
  std::atomic<uint64_t> number_ = 0, bytes_ = 0;
};

}  // namespace leat
