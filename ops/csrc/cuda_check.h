// The one check around every CUDA call: file, line, call text, error name and error text.
// Never used in a destructor, because it throws.
#pragma once

#ifdef PADDLE_WITH_CUDA

#include <cuda_runtime_api.h>

#include "failure.h"

namespace fdprof {

[[noreturn]] inline void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line) {
  cudaGetLastError();  // else the next check of a launch would report this error again
  const std::string path(file);
  throw Failure("CUDA error " + std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ") from `" +
                call + "` at " + path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line));
}

}  // namespace fdprof

#define FDPROF_CUDA(call)                                                                     \
  do {                                                                                        \
    const cudaError_t fdprof_error = (call);                                                  \
    if (fdprof_error != cudaSuccess) {                                                        \
      ::fdprof::throw_cuda_error(fdprof_error, #call, __FILE__, __LINE__);                    \
    }                                                                                         \
  } while (0)

#endif  // PADDLE_WITH_CUDA
