// SPDX-License-Identifier: Apache-2.0
// ConnectionBackings: the backing files of one FUSE connection, by the kernel's ioctls. Thread-safe
// after connect().
#pragma once

#include "frontends/fuse/open_files.h"

namespace leat {

class ConnectionBackings : public BackingRegister {
 public:
  // `fd` of /dev/fuse is owned by the caller. Must be called before the first add().
  void connect(int fd) { fd_ = fd; }

  Result<int> add(int fd) override;
  void remove(int id) override;

 private:
  int fd_ = -1;
};

}  // namespace leat
