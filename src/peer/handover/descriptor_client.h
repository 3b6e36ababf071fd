// SPDX-License-Identifier: Apache-2.0
// DescriptorClient: files of a worker on this host, as they lie in its cache. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "model/worker_id.h"
#include "peer/read_request.h"
#include "peer/trust/request_signature.h"
#include "runtime/context.h"
#include "runtime/disk.h"
#include "runtime/task.h"

namespace leat {

// A file of another process, for reading by position. The worker counts it as used while this
// lives; what is in it stays as it is also where the worker is gone.
class LeasedFile {
 public:
  LeasedFile() = default;  // none
  LeasedFile(File file, File lease) : file_(std::move(file)), lease_(std::move(lease)) {}

  int fd() const { return file_.fd(); }

 private:
  File file_;
  File lease_;  // the connection: closing it gives the file back
};

class DescriptorClient {
 public:
  // `path`: of the worker's socket.
  DescriptorClient(std::string path, WorkerId worker, std::shared_ptr<RequestSigner> signer)
      : path_(std::move(path)), worker_(worker), signer_(std::move(signer)) {}

  // The whole of the file; the request's range is not looked at. kNotFound where it is not to be
  // had: not complete there, or packed, or not for us. kUnavailable where nobody answers, kCorrupt
  // for what is no such file. In all of these ask by HTTP.
  Task<Result<LeasedFile>> open(Context context, PeerReadRequest request) const;

 private:
  const std::string path_;
  const WorkerId worker_;
  const std::shared_ptr<RequestSigner> signer_;
};

}  // namespace leat
