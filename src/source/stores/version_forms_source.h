// SPDX-License-Identifier: Apache-2.0
// VersionFormsSource: wraps a source with a store that may write a version in different forms in
// listings and in responses to HEAD (VersionForms). It is above retries and limits, so its
// additional requests are paced and retried like any other. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "source/source.h"
#include "source/version_forms.h"

namespace leat {

class VersionFormsSource : public Source {
 public:
  explicit VersionFormsSource(SourcePtr inner) : inner_(std::move(inner)) {}

  const StoreId& id() const override { return inner_->id(); }
  const std::string& name() const override { return inner_->name(); }
  const SourceCapabilities& capabilities() const override { return inner_->capabilities(); }
  unsigned concurrency_hint(uint64_t bytes) const override {
    return inner_->concurrency_hint(bytes);
  }
  Clock::duration first_byte_median() const override { return inner_->first_byte_median(); }
  bool failing() const override { return inner_->failing(); }

  // Returns the version in the form of the listing once an object with two forms was seen; each
  // stat then needs an additional listing of its key.
  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    return inner_->list(std::move(context), std::move(request));
  }
  // If the store no longer has the version, a HEAD and a listing of the key decide whether it
  // is the present version in another form. The read then demands that form.
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  Task<Result<>> read_scattered(Context context, ReadRequest request,
                                std::vector<std::span<std::byte>> pieces) override;

  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override;
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override;
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override {
    return inner_->copy(std::move(context), std::move(request));
  }
  Task<Result<>> rename(Context context, RenameRequest request) override {
    return inner_->rename(std::move(context), std::move(request));
  }
  Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request) override {
    return inner_->set_attributes(std::move(context), std::move(request));
  }
  Task<Result<>> remove(Context context, RemoveRequest request) override {
    return inner_->remove(std::move(context), std::move(request));
  }

  // For tests.
  const SourcePtr& inner() const { return inner_; }

 private:
  class Writer;
  using ReadOnce = std::function<Task<Result<>>(Context, ReadRequest)>;

  Task<Result<>> read_form(Context context, ReadRequest request, ReadOnce once);
  // Returns the listing's entry of the key that was found; nothing if it has no such file.
  Task<std::optional<SourceObject>> find_listed(Context context, StatRequest request);
  // Whether the demanded version, which the store no longer has, is the present one in another
  // form; remembers that.
  Task<bool> is_form_of_present(Context context, ReadRequest request);

  const SourcePtr inner_;
  const std::shared_ptr<VersionForms> forms_ = std::make_shared<VersionForms>();
};

}  // namespace leat
