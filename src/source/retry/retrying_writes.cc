// SPDX-License-Identifier: Apache-2.0
// RetryingSource: operations that change a store.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "source/retry/retry_loop.h"

namespace leat {
namespace {

// Additional time of an upload beyond its timeouts: its bytes at the speed of a slow link.
constexpr uint64_t kSlowLinkBytesPerSecond = 256 * 1024;
// Processing time of a store before it answers: joining parts, copying, removing a thousand keys.
constexpr Clock::duration kStoreProcessingTime = std::chrono::minutes(1);

Clock::duration upload_allowance(uint64_t bytes) {
  return std::chrono::milliseconds(bytes * 1000 / kSlowLinkBytesPerSecond);
}

bool is_conditional(const WriteCondition& condition) {
  return condition.absent || condition.version.known();
}

}  // namespace

class RetryingSource::Writer : public ObjectWriter {
 public:
  Writer(std::shared_ptr<RetryingSource> source, ObjectWriterPtr inner, WriteRequest request)
      : source_(std::move(source)), inner_(std::move(inner)), request_(std::move(request)) {}

  bool is_retryable() const override { return inner_->is_retryable(); }

  Task<Result<>> append(Context context, std::span<const std::byte> part,
                        AttemptTimeouts timeouts) override {
    largest_part_ = std::max<uint64_t>(largest_part_, part.size());
    Operation operation =
        make_operation(part.size(), timeouts, upload_allowance(kUnsentParts * largest_part_));
    Attempt<void> attempt = [this, part](Context context, AttemptTimeouts timeouts) {
      return inner_->append(std::move(context), part, timeouts);
    };
    co_return co_await source_->run_with_retry(std::move(context), operation, std::move(attempt));
  }

  Task<Result<>> copy_part(Context context, PartCopy from, AttemptTimeouts timeouts) override {
    Operation operation = make_operation(
        0, timeouts, kStoreProcessingTime + upload_allowance(kUnsentParts * largest_part_));
    Attempt<void> attempt = [this, &from](Context context, AttemptTimeouts timeouts) {
      return inner_->copy_part(std::move(context), from, timeouts);
    };
    co_return co_await source_->run_with_retry(std::move(context), operation, std::move(attempt));
  }

  Task<Result<SourceObject>> complete(Context context, AttemptTimeouts timeouts) override {
    Operation operation = make_operation(
        0, timeouts, kStoreProcessingTime + upload_allowance(kUnsentParts * largest_part_));
    operation.repeatable = is_retryable() && !is_conditional(request_.condition);
    Attempt<SourceObject> attempt = [this](Context context, AttemptTimeouts timeouts) {
      return inner_->complete(std::move(context), timeouts);
    };
    co_return co_await source_->run_with_retry(std::move(context), operation, std::move(attempt));
  }

  Task<Result<>> abort(Context context, AttemptTimeouts timeouts) override {
    Operation operation = make_operation(0, timeouts, kStoreProcessingTime);
    operation.repeatable = true;
    Attempt<void> attempt = [this](Context context, AttemptTimeouts timeouts) {
      return inner_->abort(std::move(context), timeouts);
    };
    co_return co_await source_->run_with_retry(std::move(context), operation, std::move(attempt));
  }

 private:
  // Parts that an inner writer may have in flight when the next part or the end arrives.
  static constexpr uint64_t kUnsentParts = 9;

  Operation make_operation(uint64_t bytes, AttemptTimeouts timeouts,
                           Clock::duration allowance) const {
    return {"write", request_.key, bytes, Kind::kChange, timeouts, allowance, is_retryable()};
  }

  const std::shared_ptr<RetryingSource> source_;
  const ObjectWriterPtr inner_;
  const WriteRequest request_;
  uint64_t largest_part_ = 0;
};

Task<Result<SourceObject>> RetryingSource::write(Context context, WriteRequest request,
                                                 std::span<const std::byte> content) {
  Operation operation{"write",
                      request.key,
                      content.size(),
                      Kind::kChange,
                      request.timeouts,
                      kStoreProcessingTime + upload_allowance(content.size()),
                      !is_conditional(request.condition)};
  Attempt<SourceObject> attempt = [this, &request, content](Context context,
                                                            AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    return inner_->write(std::move(context), request, content);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Result<ObjectWriterPtr> RetryingSource::begin_write(WriteRequest request) {
  LEAT_TRY(ObjectWriterPtr inner, inner_->begin_write(request));
  return std::make_unique<Writer>(shared_from_this(), std::move(inner), std::move(request));
}

Task<Result<SourceObject>> RetryingSource::copy(Context context, CopyRequest request) {
  Operation operation{"copy",
                      request.to,
                      0,
                      Kind::kChange,
                      request.timeouts,
                      kStoreProcessingTime,
                      !request.if_absent};
  Attempt<SourceObject> attempt = [this, &request](Context context, AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    return inner_->copy(std::move(context), request);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Task<Result<>> RetryingSource::rename(Context context, RenameRequest request) {
  // Not repeatable: after a success it would not find the name to rename.
  Operation operation{"rename",         request.from,         0,    Kind::kChange,
                      request.timeouts, kStoreProcessingTime, false};
  Attempt<void> attempt = [this, &request](Context context, AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    return inner_->rename(std::move(context), request);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Task<Result<SourceObject>> RetryingSource::set_attributes(Context context,
                                                          AttributesRequest request) {
  Operation operation{"set attributes of", request.key,      0,
                      Kind::kChange,       request.timeouts, kStoreProcessingTime};
  Attempt<SourceObject> attempt = [this, &request](Context context, AttemptTimeouts timeouts) {
    request.timeouts = timeouts;
    return inner_->set_attributes(std::move(context), request);
  };
  co_return co_await run_with_retry(std::move(context), operation, std::move(attempt));
}

Task<Result<>> RetryingSource::remove(Context context, RemoveRequest request) {
  std::vector<std::string> keys = std::exchange(request.keys, {});
  for (size_t begin = 0; begin < keys.size();) {
    const size_t end =
        std::min(keys.size(), begin + std::max<size_t>(capabilities().removes_max, 1));
    request.keys.assign(keys.begin() + static_cast<ptrdiff_t>(begin),
                        keys.begin() + static_cast<ptrdiff_t>(end));
    begin = end;
    Operation operation{"remove",      request.keys.front(), 0,
                        Kind::kChange, request.timeouts,     kStoreProcessingTime};
    Attempt<void> attempt = [this, &request](Context context, AttemptTimeouts timeouts) {
      RemoveRequest once = request;
      once.timeouts = timeouts;
      return inner_->remove(std::move(context), std::move(once));
    };
    Result<> done = co_await run_with_retry(context, operation, std::move(attempt));
    if (!done) co_return done;
  }
  co_return Result<>();
}

}  // namespace leat
