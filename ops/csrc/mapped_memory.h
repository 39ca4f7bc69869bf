// Small pieces of host memory that kernels read and write in place (cudaHostAllocMapped); never freed, because a
// kernel that is still queued may read them.  The CPU build uses plain memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fdprof {

template <typename T>
struct Mapped {
  T* host = nullptr;
  T* device = nullptr;
};

// Zeroed; throws Failure when CUDA refuses.
Mapped<void> mapped_allocate(size_t size_bytes);

template <typename T>
Mapped<T> mapped_new() {
  const Mapped<void> memory = mapped_allocate(sizeof(T));
  return {static_cast<T*>(memory.host), static_cast<T*>(memory.device)};
}

// The word that ends every kernel of ours that spins or waits: nonzero means "end now".
// `device` is null only where CUDA cannot map memory, and then no kernel runs either.
const Mapped<volatile uint32_t>& abort_word();

}  // namespace fdprof
