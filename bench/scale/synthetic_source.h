// SPDX-License-Identifier: Apache-2.0
// SyntheticSource: a store of any number of objects in directories of equally many, computed from
// their numbers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "scale/fleet.h"
#include "source/source.h"

namespace leat::scale {

inline Version synthetic_version(uint64_t number) {
  const uint64_t mixed = number * 0x9e3779b97f4a7c15ull;
  return Version::etag(fmt::format("\"{:016x}{:016x}\"", mixed, ~mixed));
}
inline WallTime synthetic_time(uint64_t number) {
  return WallTime(std::chrono::seconds(1'700'000'000 + number % 86'400));
}
inline SourceObject synthetic_object(uint64_t number, uint64_t in_directory) {
  SourceObject object;
  object.key = object_key(number, in_directory);
  object.size = object_bytes(number);
  object.version = synthetic_version(number);
  object.mtime = synthetic_time(number);
  return object;
}
inline std::string synthetic_directory(uint64_t number) {
  return fmt::format("train/part-{:07}", number);
}

class SyntheticSource : public Source {
 public:
  explicit SyntheticSource(uint64_t in_directory) : in_directory_(in_directory) {}

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  Task<Result<SourceObject>> stat(Context, StatRequest request) override {
    co_return error(StatusCode::kNotFound, request.key);
  }
  // Lists one synthetic_directory(), a thousand names at a time.
  Task<Result<ListPage>> list(Context, ListRequest request) override {
    const std::string& prefix = request.prefix;
    const uint64_t directory = number_in(prefix, prefix.find('-') + 1);
    const uint64_t at = number_in(request.token, 0);
    const uint64_t end = std::min(at + 1000, in_directory_);
    ListPage page;
    for (uint64_t i = at; i < end; ++i) {
      page.objects.push_back(synthetic_object(directory * in_directory_ + i, in_directory_));
    }
    if (end < in_directory_) page.next_token = std::to_string(end);
    co_return page;
  }
  Task<Result<>> read(Context, ReadRequest, std::span<std::byte>) override {
    co_return error(StatusCode::kNotFound, "there are only names");
  }

 private:
  static uint64_t number_in(const std::string& text, size_t at) {
    uint64_t number = 0;
    if (at < text.size()) std::from_chars(text.data() + at, text.data() + text.size(), number);
    return number;
  }

  const uint64_t in_directory_;
  const StoreId id_ = synthetic_store();
  const std::string name_ = "s3://bucket";
  const SourceCapabilities capabilities_{};
};

}  // namespace leat::scale
