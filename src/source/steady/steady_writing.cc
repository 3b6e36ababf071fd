// SPDX-License-Identifier: Apache-2.0
// SteadySource: operations that change a store.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "source/steady/steady_ask.h"

namespace leat {
namespace {

// Additional time of an upload beyond its terms: its bytes at the speed of a slow link.
constexpr uint64_t kSlowLinkBytesPerSecond = 256 * 1024;
// Processing time of a store before it answers: joining parts, copying, removing a thousand keys.
constexpr Clock::duration kStoresOwnWork = std::chrono::minutes(1);

Clock::duration upload_allowance(uint64_t bytes) {
  return std::chrono::milliseconds(bytes * 1000 / kSlowLinkBytesPerSecond);
}

bool depends(const WriteCondition& condition) {
  return condition.absent || condition.version.known();
}

}  // namespace

class SteadySource::Writer : public ObjectWriter {
 public:
  Writer(std::shared_ptr<SteadySource> source, ObjectWriterPtr inner, WriteRequest request)
      : source_(std::move(source)), inner_(std::move(inner)), request_(std::move(request)) {}

  bool repeats() const override { return inner_->repeats(); }

  Task<Result<>> append(Context context, std::span<const std::byte> part,
                        AttemptTerms terms) override {
    largest_part_ = std::max<uint64_t>(largest_part_, part.size());
    Question question = ask(part.size(), terms, upload_allowance(kUnsentParts * largest_part_));
    Attempt<void> attempt = [this, part](Context context, AttemptTerms terms) {
      return inner_->append(std::move(context), part, terms);
    };
    co_return co_await source_->ask(std::move(context), question, std::move(attempt));
  }

  Task<Result<SourceObject>> finish(Context context, AttemptTerms terms) override {
    Question question =
        ask(0, terms, kStoresOwnWork + upload_allowance(kUnsentParts * largest_part_));
    question.repeatable = repeats() && !depends(request_.condition);
    Attempt<SourceObject> attempt = [this](Context context, AttemptTerms terms) {
      return inner_->finish(std::move(context), terms);
    };
    co_return co_await source_->ask(std::move(context), question, std::move(attempt));
  }

  Task<Result<>> abandon(Context context, AttemptTerms terms) override {
    Question question = ask(0, terms, kStoresOwnWork);
    question.repeatable = true;
    Attempt<void> attempt = [this](Context context, AttemptTerms terms) {
      return inner_->abandon(std::move(context), terms);
    };
    co_return co_await source_->ask(std::move(context), question, std::move(attempt));
  }

 private:
  // Parts that an inner writer may have in flight when the next part or the end arrives.
  static constexpr uint64_t kUnsentParts = 5;

  Question ask(uint64_t bytes, AttemptTerms terms, Clock::duration allowance) const {
    return {"write", request_.key, bytes, Kind::kChange, terms, allowance, repeats()};
  }

  const std::shared_ptr<SteadySource> source_;
  const ObjectWriterPtr inner_;
  const WriteRequest request_;
  uint64_t largest_part_ = 0;
};

Task<Result<SourceObject>> SteadySource::write(Context context, WriteRequest request,
                                               std::span<const std::byte> content) {
  Question question{"write",
                    request.key,
                    content.size(),
                    Kind::kChange,
                    request.terms,
                    kStoresOwnWork + upload_allowance(content.size()),
                    !depends(request.condition)};
  Attempt<SourceObject> attempt = [this, &request, content](Context context, AttemptTerms terms) {
    request.terms = terms;
    return inner_->write(std::move(context), request, content);
  };
  co_return co_await ask(std::move(context), question, std::move(attempt));
}

Result<ObjectWriterPtr> SteadySource::begin_write(WriteRequest request) {
  LEAT_TRY(ObjectWriterPtr inner, inner_->begin_write(request));
  return std::make_unique<Writer>(shared_from_this(), std::move(inner), std::move(request));
}

Task<Result<SourceObject>> SteadySource::copy(Context context, CopyRequest request) {
  Question question{"copy",         request.to,        0, Kind::kChange, request.terms,
                    kStoresOwnWork, !request.if_absent};
  Attempt<SourceObject> attempt = [this, &request](Context context, AttemptTerms terms) {
    request.terms = terms;
    return inner_->copy(std::move(context), request);
  };
  co_return co_await ask(std::move(context), question, std::move(attempt));
}

Task<Result<>> SteadySource::rename(Context context, RenameRequest request) {
  // Not repeatable: after a success it would not find the name to rename.
  Question question{"rename", request.from, 0, Kind::kChange, request.terms, kStoresOwnWork, false};
  Attempt<void> attempt = [this, &request](Context context, AttemptTerms terms) {
    request.terms = terms;
    return inner_->rename(std::move(context), request);
  };
  co_return co_await ask(std::move(context), question, std::move(attempt));
}

Task<Result<>> SteadySource::remove(Context context, RemoveRequest request) {
  std::vector<std::string> keys = std::exchange(request.keys, {});
  for (size_t begin = 0; begin < keys.size();) {
    const size_t end =
        std::min(keys.size(), begin + std::max<size_t>(capabilities().removes_max, 1));
    request.keys.assign(keys.begin() + static_cast<ptrdiff_t>(begin),
                        keys.begin() + static_cast<ptrdiff_t>(end));
    begin = end;
    Question question{"remove",      request.keys.front(), 0,
                      Kind::kChange, request.terms,        kStoresOwnWork};
    Attempt<void> attempt = [this, &request](Context context, AttemptTerms terms) {
      RemoveRequest once = request;
      once.terms = terms;
      return inner_->remove(std::move(context), std::move(once));
    };
    Result<> done = co_await ask(context, question, std::move(attempt));
    if (!done) co_return done;
  }
  co_return Result<>();
}

}  // namespace leat
