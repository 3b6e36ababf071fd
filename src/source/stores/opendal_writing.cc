// SPDX-License-Identifier: Apache-2.0
// OpendalSource: operations that change a store.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "source/stores/opendal_source.h"
#include "source/stores/shim_types.h"

namespace leat {
namespace {

// Lines NAME=VALUE.
std::string metadata_of(const WriteRequest& request) {
  std::string lines;
  for (const auto& [name, value] : to_metadata(request.attributes)) {
    lines += fmt::format("{}={}\n", name, value);
  }
  return lines;
}

// `metadata` must outlive the result.
leat_condition as_condition(const WriteCondition& condition, const std::string& metadata) {
  return {condition.absent, as_text(condition.version.value), as_text(metadata)};
}

struct CloseWriter {
  void operator()(leat_writer* writer) const { leat_writer_close(writer); }
};

}  // namespace

class OpendalSource::Writer : public ObjectWriter {
 public:
  Writer(std::shared_ptr<const OpendalSource> source, WriteRequest request)
      : source_(std::move(source)),
        request_(std::move(request)),
        what_(fmt::format("write {}/{}", source_->name_, request_.key)),
        writer_(leat_writer_open(source_->store_.get(), as_text(request_.key),
                                 as_condition(request_.condition, metadata_of(request_)))) {}

  bool is_retryable() const override { return source_->retries_parts_; }

  Task<Result<>> append(Context context, std::span<const std::byte> part,
                        AttemptTimeouts timeouts) override {
    source_metrics::write_requests.add();
    Start start = [this, part, &timeouts](Pending* pending) {
      return leat_writer_append(writer_.get(), as_text(part), as_terms(timeouts), &on_done,
                                pending);
    };
    Result<ResponsePtr> response = co_await source_->call(context, what_, timeouts.report, start);
    if (!response) co_return Error(response.error());
    source_metrics::written_bytes.add(part.size());
    co_return Result<>();
  }

  Task<Result<>> copy_part(Context context, PartCopy from, AttemptTimeouts timeouts) override {
    source_metrics::write_requests.add();
    Start start = [this, &from, &timeouts](Pending* pending) {
      const leat_range range{as_text(from.key), as_text(from.version.value), from.range.offset,
                             from.range.size};
      return leat_writer_copy(writer_.get(), range, as_terms(timeouts), &on_done, pending);
    };
    Result<ResponsePtr> response = co_await source_->call(context, what_, timeouts.report, start);
    if (!response) co_return Error(response.error());
    co_return Result<>();
  }

  Task<Result<SourceObject>> complete(Context context, AttemptTimeouts timeouts) override {
    source_metrics::write_requests.add();
    Start start = [this, &timeouts](Pending* pending) {
      return leat_writer_finish(writer_.get(), as_terms(timeouts), &on_done, pending);
    };
    Result<SourceObject> object = co_await source_->change(context, what_, timeouts.report, start);
    co_return object;
  }

  Task<Result<>> abort(Context context, AttemptTimeouts timeouts) override {
    Start start = [this, &timeouts](Pending* pending) {
      return leat_writer_abandon(writer_.get(), as_terms(timeouts), &on_done, pending);
    };
    Result<ResponsePtr> response = co_await source_->call(context, what_, timeouts.report, start);
    if (!response) co_return Error(response.error());
    co_return Result<>();
  }

 private:
  const std::shared_ptr<const OpendalSource> source_;
  const WriteRequest request_;
  const std::string what_;
  const std::unique_ptr<leat_writer, CloseWriter> writer_;
};

Task<Result<SourceObject>> OpendalSource::change(Context context, std::string what,
                                                 AttemptReport* report, Start start) const {
  Result<ResponsePtr> response = co_await call(context, what, report, start);
  if (!response) co_return Error(response.error());
  co_return std::move((*response)->objects.at(0));
}

Result<> OpendalSource::check_condition(const WriteRequest& request) const {
  const WriteCondition& condition = request.condition;
  if (condition.absent && condition.version.known()) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("cannot write {}/{}: it cannot be absent and of a version at once",
                             name_, request.key));
  }
  if (condition.version.known() && condition.version.kind != version_kind_) {
    return error(StatusCode::kUnsupported,
                 fmt::format("cannot write {}/{}: the store cannot compare with {}", name_,
                             request.key, condition.version.to_string()));
  }
  return {};
}

Task<Result<SourceObject>> OpendalSource::write(Context context, WriteRequest request,
                                                std::span<const std::byte> content) {
  if (auto good = check_condition(request); !good) co_return Error(good.error());
  source_metrics::write_requests.add();
  const std::string metadata = metadata_of(request);
  Start start = [this, &request, &metadata, content](Pending* pending) {
    return leat_store_write(store_.get(), as_text(request.key), as_text(content),
                            as_condition(request.condition, metadata), as_terms(request.timeouts),
                            &on_done, pending);
  };
  Result<SourceObject> object = co_await change(
      context, fmt::format("write {}/{}", name_, request.key), request.timeouts.report, start);
  if (object) source_metrics::written_bytes.add(content.size());
  co_return object;
}

Result<ObjectWriterPtr> OpendalSource::begin_write(WriteRequest request) {
  LEAT_CHECK_OK(check_condition(request));
  return std::make_unique<Writer>(shared_from_this(), std::move(request));
}

Task<Result<SourceObject>> OpendalSource::copy(Context context, CopyRequest request) {
  source_metrics::write_requests.add();
  Start start = [this, &request](Pending* pending) {
    return leat_store_copy(store_.get(), as_text(request.from), as_text(request.to),
                           request.if_absent, as_terms(request.timeouts), &on_done, pending);
  };
  std::string what = fmt::format("copy {}/{} to {}", name_, request.from, request.to);
  Result<SourceObject> object = co_await change(context, what, request.timeouts.report, start);
  co_return object;
}

Task<Result<>> OpendalSource::rename(Context context, RenameRequest request) {
  source_metrics::write_requests.add();
  Start start = [this, &request](Pending* pending) {
    return leat_store_rename(store_.get(), as_text(request.from), as_text(request.to),
                             as_terms(request.timeouts), &on_done, pending);
  };
  std::string what = fmt::format("rename {}/{} to {}", name_, request.from, request.to);
  Result<ResponsePtr> response = co_await call(context, what, request.timeouts.report, start);
  if (!response) co_return Error(response.error());
  co_return Result<>();
}

Task<Result<>> OpendalSource::remove(Context context, RemoveRequest request) {
  if (request.keys.empty()) co_return Result<>();
  source_metrics::remove_requests.add();
  std::vector<leat_text> keys;
  for (const std::string& key : request.keys) keys.push_back(as_text(key));
  Start start = [this, &request, &keys](Pending* pending) {
    return leat_store_remove(store_.get(), keys.data(), keys.size(), as_terms(request.timeouts),
                             &on_done, pending);
  };
  std::string what = fmt::format("remove {}/{}", name_, request.keys.front());
  if (keys.size() > 1) what += fmt::format(" and {} more", keys.size() - 1);
  Result<ResponsePtr> response = co_await call(context, what, request.timeouts.report, start);
  if (!response) co_return Error(response.error());
  co_return Result<>();
}

}  // namespace leat
