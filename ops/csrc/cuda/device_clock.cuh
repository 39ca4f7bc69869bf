// %globaltimer: one clock for all SMs, in ns; its tick is 32 ns on an H200 and up to 1 µs on older cards.
#pragma once

#include <cstdint>

namespace fdprof::cuda {

__device__ __forceinline__ int64_t device_now_ns() {
  int64_t now_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

// Between two polls of a waiting kernel: frees the issue slots of its SM where the hardware can sleep.
__device__ __forceinline__ void rest() {
#if __CUDA_ARCH__ >= 700
  __nanosleep(200);
#endif
}

}  // namespace fdprof::cuda
