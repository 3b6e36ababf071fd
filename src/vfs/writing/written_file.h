// SPDX-License-Identifier: Apache-2.0
// WrittenFile: the open file of a node of a mount that takes writes; one for all its opens. Its
// content is the version below until a program opens it for writing, and the staged file from then
// on.
#pragma once

#include <memory>
#include <mutex>

#include "vfs/file_system.h"
#include "vfs/writing/written_node.h"

namespace leat {

class WritableFileSystem;

class WrittenFile : public WritableFile {
 public:
  WrittenFile(WritableFileSystem& files, WrittenNodePtr node)
      : files_(files), node_(std::move(node)) {}

  NodeId node() const override { return node_->id; }
  const FileRefPtr& ref() const override { return no_ref_; }
  std::optional<Bytes> try_read(uint64_t offset, uint64_t size) override;
  Task<Result<Bytes>> read(Context context, uint64_t offset, uint64_t size) override;
  // The kernel must not read a version itself, since the file may be written later. It may read and
  // write a staged file.
  std::shared_ptr<BackingFile> backing() override;
  void record_open(uint32_t, int32_t) override {}

  Task<Result<>> write(Context context, uint64_t offset, Bytes data) override;
  Task<Result<>> allocate(Context context, int mode, uint64_t offset, uint64_t size) override;
  Task<Result<>> flush(Context context) override;
  Task<Result<>> synchronise(Context context) override;
  bool try_close() override;
  Task<Result<>> close(Context context) override;

  // The open version below.
  void set_below(std::shared_ptr<OpenFile> file);
  std::shared_ptr<OpenFile> below() const;

 private:
  const FileRefPtr no_ref_ = nullptr;
  WritableFileSystem& files_;
  const WrittenNodePtr node_;
  mutable std::mutex mutex_;         // leaf: below_
  std::shared_ptr<OpenFile> below_;  // null: only written so far
};

}  // namespace leat
