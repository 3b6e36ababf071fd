// SPDX-License-Identifier: Apache-2.0
#include "source/stores/version_forms_source.h"

namespace leat {

Task<Result<SourceObject>> VersionFormsSource::stat(Context context, StatRequest request) {
  Result<SourceObject> found = co_await inner_->stat(context, request);
  if (!found || !forms_->any() || found->kind != FileKind::kFile) co_return found;
  if (auto known = forms_->listed(request.key, found->version)) {
    found->version = *std::move(known);
    co_return found;
  }
  const std::optional<SourceObject> listed = co_await find_listed(context, request);
  if (!listed || listed->version == found->version || !VersionForms::agree(*listed, *found)) {
    co_return found;
  }
  forms_->remember(name(), request.key, listed->version, found->version);
  found->version = listed->version;
  co_return found;
}

Task<std::optional<SourceObject>> VersionFormsSource::find_listed(Context context,
                                                                  StatRequest request) {
  ListRequest query{.prefix = request.key, .token = "", .timeouts = request.timeouts};
  query.timeouts.report = nullptr;
  Result<ListPage> page = co_await inner_->list(context, std::move(query));
  if (!page) co_return std::nullopt;
  for (SourceObject& object : page->objects) {
    if (object.key == request.key) co_return std::move(object);
  }
  co_return std::nullopt;
}

Task<bool> VersionFormsSource::is_form_of_present(Context context, ReadRequest request) {
  const StatRequest query{request.key, request.timeouts};
  Result<SourceObject> found = co_await inner_->stat(context, query);
  if (!found || found->version == forms_->demanded(request.key, request.if_version))
    co_return false;
  if (request.object_size != 0 && found->size != request.object_size) co_return false;
  // Listed after the HEAD: a consistent store would list later changes.
  const std::optional<SourceObject> listed = co_await find_listed(context, query);
  if (!listed || listed->version != request.if_version || !VersionForms::agree(*listed, *found)) {
    co_return false;
  }
  forms_->remember(name(), request.key, listed->version, found->version);
  co_return true;
}

Task<Result<>> VersionFormsSource::read(Context context, ReadRequest request,
                                        std::span<std::byte> into) {
  return read_form(std::move(context), std::move(request),
                   [inner = inner_, into](Context once, ReadRequest attempt) {
                     return inner->read(std::move(once), std::move(attempt), into);
                   });
}

Task<Result<>> VersionFormsSource::read_scattered(Context context, ReadRequest request,
                                                  std::vector<std::span<std::byte>> pieces) {
  return read_form(std::move(context), std::move(request),
                   [inner = inner_, pieces = std::move(pieces)](Context once, ReadRequest attempt) {
                     return inner->read_scattered(std::move(once), std::move(attempt), pieces);
                   });
}

Task<Result<>> VersionFormsSource::read_form(Context context, ReadRequest request, ReadOnce once) {
  ReadRequest attempt = request;
  attempt.if_version = forms_->demanded(request.key, request.if_version);
  Result<> done = co_await once(context, attempt);
  if (done || !request.if_version.known() || done.error().code() != StatusCode::kVersionChanged) {
    co_return done;
  }
  // Bytes of the demanded version arrived: the store knows its form.
  if (request.progress.bytes() > 0) co_return done;
  const bool is_form = co_await is_form_of_present(context, request);
  if (!is_form) co_return done;
  attempt.if_version = forms_->demanded(request.key, request.if_version);
  Result<> again = co_await once(context, attempt);
  co_return again;
}

Task<Result<SourceObject>> VersionFormsSource::write(Context context, WriteRequest request,
                                                     std::span<const std::byte> content) {
  request.condition.version = forms_->demanded(request.key, request.condition.version);
  return inner_->write(std::move(context), std::move(request), content);
}

// Demands copied parts in the form that the store knows.
class VersionFormsSource::Writer : public ObjectWriter {
 public:
  Writer(std::shared_ptr<const VersionForms> forms, ObjectWriterPtr inner)
      : forms_(std::move(forms)), inner_(std::move(inner)) {}

  bool is_retryable() const override { return inner_->is_retryable(); }
  Task<Result<>> append(Context context, std::span<const std::byte> part,
                        AttemptTimeouts timeouts) override {
    return inner_->append(std::move(context), part, timeouts);
  }
  Task<Result<>> copy_part(Context context, PartCopy from, AttemptTimeouts timeouts) override {
    from.version = forms_->demanded(from.key, from.version);
    return inner_->copy_part(std::move(context), std::move(from), timeouts);
  }
  Task<Result<SourceObject>> complete(Context context, AttemptTimeouts timeouts) override {
    return inner_->complete(std::move(context), timeouts);
  }
  Task<Result<>> abort(Context context, AttemptTimeouts timeouts) override {
    return inner_->abort(std::move(context), timeouts);
  }

 private:
  const std::shared_ptr<const VersionForms> forms_;
  const ObjectWriterPtr inner_;
};

Result<ObjectWriterPtr> VersionFormsSource::begin_write(WriteRequest request) {
  request.condition.version = forms_->demanded(request.key, request.condition.version);
  LEAT_TRY(ObjectWriterPtr inner, inner_->begin_write(std::move(request)));
  return std::make_unique<Writer>(forms_, std::move(inner));
}

}  // namespace leat
