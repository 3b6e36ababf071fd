// SPDX-License-Identifier: Apache-2.0
// FdClient: opens cached files of a worker on this host by fd passing. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "auth/request_signature.h"
#include "model/worker_id.h"
#include "runtime/context.h"
#include "runtime/disk.h"
#include "runtime/task.h"
#include "wire/read_request.h"

namespace leat {

// An open file of another process, read with pread. The worker counts it as used during the
// lifetime of this object. Its content never changes, also after the end of the worker.
class LeasedFile {
 public:
  LeasedFile() = default;  // empty
  LeasedFile(File file, File lease) : file_(std::move(file)), lease_(std::move(lease)) {}

  int fd() const { return file_.fd(); }

 private:
  File file_;
  File lease_;  // the connection; closing it ends the lease
};

class FdClient {
 public:
  // `path` is the worker's socket.
  FdClient(std::string path, WorkerId worker, std::shared_ptr<RequestSigner> signer)
      : path_(std::move(path)), worker_(worker), signer_(std::move(signer)) {}

  // Opens the whole file; the request's range is ignored. Returns kNotFound if the file is
  // not complete there, packed in a segment, or not permitted. Returns kUnavailable if there is no
  // answer, kCorrupt if the descriptor is not such a file. After any of them the caller reads by
  // HTTP.
  Task<Result<LeasedFile>> open(Context context, PeerReadRequest request) const;

 private:
  const std::string path_;
  const WorkerId worker_;
  const std::shared_ptr<RequestSigner> signer_;
};

}  // namespace leat
