// SPDX-License-Identifier: Apache-2.0
#include "vfs/virtual_files.h"

#include <fmt/format.h>

#include <algorithm>

namespace leat {

class VirtualFiles::File : public OpenFile {
 public:
  File(NodeId node, const std::string& content, std::shared_ptr<std::atomic<uint64_t>> held)
      : node_(node), content_(Bytes::copy_of(content)), held_(std::move(held)) {}
  ~File() override { held_->fetch_sub(content_.size()); }
  File(const File&) = delete;

  NodeId node() const override { return node_; }
  const FileRefPtr& ref() const override {
    static const FileRefPtr kNone;
    return kNone;
  }
  std::optional<Bytes> try_read(uint64_t offset, uint64_t size) override {
    if (offset >= content_.size()) return Bytes();
    return content_.sub(offset, std::min<uint64_t>(size, content_.size() - offset));
  }
  Task<Result<Bytes>> read(Context, uint64_t offset, uint64_t size) override {
    co_return *try_read(offset, size);
  }
  std::shared_ptr<BackingFile> backing() override { return nullptr; }
  void record_open(uint32_t, int32_t) override {}

 private:
  const NodeId node_;
  const Bytes content_;
  const std::shared_ptr<std::atomic<uint64_t>> held_;
};

VirtualFiles::VirtualFiles(uint64_t number_bits, uint64_t bytes_max)
    : bytes_max_(bytes_max),
      // Fewer than one a nanosecond are created, so a later process begins at a higher number.
      next_(number_bits | static_cast<uint64_t>(Clock::now().time_since_epoch().count())) {}

Result<NodeAttributes> VirtualFiles::add(NodeAttributes attributes, const std::string& content) {
  if (bytes_->fetch_add(content.size()) + content.size() > bytes_max_) {
    bytes_->fetch_sub(content.size());
    return error(StatusCode::kBusy,
                 fmt::format("programs hold {} MiB of these files open; close some of them",
                             bytes_max_ / kMiB));
  }
  attributes.node = next_.fetch_add(1);
  attributes.size = content.size();
  auto file = std::make_shared<File>(attributes.node, content, bytes_);
  std::lock_guard lock(mutex_);
  slots_.emplace(attributes.node, Slot{.attributes = attributes, .file = std::move(file)});
  return attributes;
}

void VirtualFiles::forget(NodeId node, uint64_t count) {
  std::lock_guard lock(mutex_);
  auto found = slots_.find(node);
  if (found == slots_.end()) return;
  Slot& slot = found->second;
  slot.lookups -= std::min(slot.lookups, count);
  if (slot.lookups == 0) slots_.erase(found);
}

std::optional<NodeAttributes> VirtualFiles::attributes(NodeId node) const {
  std::lock_guard lock(mutex_);
  auto found = slots_.find(node);
  if (found == slots_.end()) return std::nullopt;
  return found->second.attributes;
}

std::shared_ptr<OpenFile> VirtualFiles::open(NodeId node) const {
  std::lock_guard lock(mutex_);
  auto found = slots_.find(node);
  return found == slots_.end() ? nullptr : found->second.file;
}

}  // namespace leat
