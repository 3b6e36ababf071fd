// SPDX-License-Identifier: Apache-2.0
// StoreId, FileId, FileRef: the identity of bytes. A FileRef suffices to serve a read on any host.
// The version is part of the identity: a stale page can only be missed, never served.
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

// `salt` is empty except for isolated mounts, which share no bytes.
StoreId make_store_id(std::string_view scheme, std::string_view endpoint, std::string_view account,
                      std::string_view bucket, std::string_view salt = {});

struct FileRef {
  StoreId store;
  std::string key;  // path in the store, without leading slash
  Version version;
  uint64_t size = 0;
  FileId id;
  // Options of the mount; not part of the identity.
  CacheUse cache = CacheUse::kDisk;
  PoolId pool = PoolId::kNone;

  static FileRef make(StoreId store, std::string key, Version version, uint64_t size,
                      CacheUse cache = CacheUse::kDisk, PoolId pool = PoolId::kNone);
};

// Shared by everything that has the file open. Never null as a parameter.
using FileRefPtr = std::shared_ptr<const FileRef>;

}  // namespace leat
