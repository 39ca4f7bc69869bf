#include "mapped_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "cuda_check.h"
#include "device.h"

namespace fdprof {

Mapped<void> mapped_allocate(size_t size_bytes) {
  Mapped<void> memory;
#ifdef PADDLE_WITH_CUDA
  use_device();
  FDPROF_CUDA(cudaHostAlloc(&memory.host, size_bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  FDPROF_CUDA(cudaHostGetDevicePointer(&memory.device, memory.host, 0));
#else
  memory.host = std::malloc(size_bytes);
  if (memory.host == nullptr) {
    throw std::bad_alloc();
  }
  memory.device = memory.host;
#endif
  std::memset(memory.host, 0, size_bytes);
  return memory;
}

const Mapped<volatile uint32_t>& abort_word() {
  static const Mapped<volatile uint32_t> word = [] {
    const Mapped<uint32_t> memory = mapped_new<uint32_t>();
    return Mapped<volatile uint32_t>{memory.host, memory.device};
  }();
  return word;
}

}  // namespace fdprof
