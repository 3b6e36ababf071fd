// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/staged/part_stream.h"

#include <utility>
#include <vector>

#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "vfs/writing/staged/write_outcome.h"

namespace leat {
namespace {

Counter streamed_bytes("leat_vfs_streamed_bytes_total",
                       "Bytes of saved files that were sent while they were written", "",
                       Stability::kExperimental);

}  // namespace

std::shared_ptr<PartStream> PartStream::begin(SourcePtr source, const SourceCapabilities& store,
                                              WriteRequest request, WriteCondition compared,
                                              std::shared_ptr<StagedFile> content, Slots slots) {
  WriteRequest sent = request;
  sent.condition = std::move(compared);
  Result<ObjectWriterPtr> writer = source->begin_write(std::move(sent));
  if (!writer) return nullptr;
  if (++*slots > kStreamsMax) {
    --*slots;
    return nullptr;
  }
  return std::make_shared<PartStream>(Private(), std::move(source), store, std::move(request),
                                      *std::move(writer), std::move(content), std::move(slots));
}

PartStream::PartStream(Private, SourcePtr source, const SourceCapabilities& store,
                       WriteRequest request, ObjectWriterPtr writer,
                       std::shared_ptr<StagedFile> content, Slots slots)
    : source_(std::move(source)),
      store_(store),
      request_(std::move(request)),
      content_(std::move(content)),
      slots_(std::move(slots)),
      writer_(std::move(writer)) {}

bool PartStream::fits(const WriteRequest& request, const StagedFile* content) const {
  const WriteCondition &ours = request_.condition, &theirs = request.condition;
  return is_intact() && content_.get() == content && request_.key == request.key &&
         ours.absent == theirs.absent && ours.version == theirs.version &&
         request_.attributes == request.attributes;
}

std::optional<WallTime> PartStream::last_write() const {
  const WallTime last = last_write_;
  if (last == WallTime::min()) return std::nullopt;
  return last;
}

uint64_t PartStream::part_bytes() const {
  return PartWriter::part_bytes(store_, 0, number_, bytes_);
}

void PartStream::advance(Executor& executor, Gate& gate, std::stop_token stopped) {
  std::optional<Gate::Holder> holder;
  {
    std::lock_guard lock(mutex_);
    if (pumping_ || stopped_ || content_->written_in_order() < bytes_ + part_bytes()) return;
    holder = gate.enter();
    if (!holder) return;
    pumping_ = true;
  }
  const Context context = Context::background().with_cancel(std::move(stopped));
  executor.spawn(pump(shared_from_this(), *std::move(holder), context));
}

Task<> PartStream::pump(std::shared_ptr<PartStream> self, Gate::Holder, Context context) {
  auto permit = co_await self->sending_.acquire(context, 1, "parts of a file on their way");
  if (!permit) self->stop();
  while (self->is_intact()) {
    std::optional<ByteRange> part;
    {
      std::lock_guard lock(self->mutex_);
      part = self->content_->take_part(self->part_bytes());
      self->pumping_ = part.has_value();
    }
    if (!part) co_return;
    const Result<> sent = co_await self->send(context, *part);
    if (sent) continue;
    self->stop();
    log::info("{}/{} is sent when it is closed: {}", self->source_->name(), self->request_.key,
              sent.error().to_string());
  }
}

Task<Result<>> PartStream::send(Context context, ByteRange part) {
  ++number_;
  bytes_ += part.size;
  LEAT_CO_TRY(const Bytes bytes, co_await content_->read(context, part.offset, part.size));
  if (bytes.size() != part.size) {
    co_return error(StatusCode::kVersionChanged, "the file was cut while it was sent");
  }
  std::vector<std::byte> all(bytes.size());
  bytes.copy_to(all);
  Result<> sent = co_await writer_->append(context, all, request_.timeouts);
  co_return sent;
}

Task<Result<std::optional<SourceObject>>> PartStream::finish(Context context) {
  auto permit = co_await sending_.acquire(context, 1, "parts of a file on their way");
  if (!permit) co_return Error(permit.error());
  const uint64_t before = bytes_;
  Result<> sent;
  while (sent && is_intact()) {
    const std::optional<ByteRange> part = content_->take_rest(part_bytes());
    if (!part) break;
    sent = co_await send(context, *part);
  }
  const bool is_complete = sent && is_intact();
  stop();
  if (is_complete) {
    Result<SourceObject> object = co_await writer_->complete(context, request_.timeouts);
    if (object) {
      streamed_bytes.add(before);
      co_return *std::move(object);
    }
    if (is_condition_failure(object.error().code())) co_return Error(object.error());
    sent = Error(object.error());
  }
  if (!sent && is_unknown_outcome(sent.error().code())) co_return Error(sent.error());
  co_return std::nullopt;
}

}  // namespace leat
