// SPDX-License-Identifier: Apache-2.0
// StoreId, FileId, FileRef: the identity of bytes. A FileRef is all that is needed to answer a read
// anywhere; the version is part of the identity, so a stale page can only be missed, never served.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/id128.h"
#include "model/cache_use.h"
#include "model/pool.h"
#include "model/version.h"

namespace leat {

struct StoreIdTag {};
struct FileIdTag {};
using StoreId = TypedId<StoreIdTag>;  // scheme, endpoint, account and bucket; no prefix, no secret
using FileId = TypedId<FileIdTag>;    // store, key and version

// `salt` is empty but for isolated mounts, which share nothing.
StoreId make_store_id(std::string_view scheme, std::string_view endpoint, std::string_view account,
                      std::string_view bucket, std::string_view salt = {});

struct FileRef {
  StoreId store;
  std::string key;  // path in the store, without leading slash
  Version version;
  uint64_t size = 0;
  FileId id;
  // The mount's wishes; no part of the identity.
  CacheUse cache = CacheUse::kDisk;
  PoolId pool = PoolId::kNone;

  static FileRef make(StoreId store, std::string key, Version version, uint64_t size,
                      CacheUse cache = CacheUse::kDisk, PoolId pool = PoolId::kNone);
};

// Shared by everything that has the file open; never null where a function takes one.
using FileRefPtr = std::shared_ptr<const FileRef>;

}  // namespace leat
