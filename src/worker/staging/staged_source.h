// SPDX-License-Identifier: Apache-2.0
// StagedSource: the store of a cluster's mount with the staged changes of all workers applied.
// Without a staging log it is the store. Changes do not go through it. Thread-safe.
#pragma once

#include <string>

#include "source/source.h"
#include "worker/staging/staging_service.h"

namespace leat {

// `staging` must outlive the source.
SourcePtr make_staged_source(std::string mount, SourcePtr store, StagingService& staging);

}  // namespace leat
