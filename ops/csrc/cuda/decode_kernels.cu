#include "../cuda_check.h"
#include "device_clock.cuh"
#include "kernels.h"

namespace fdprof::cuda {
namespace {

// A read of mapped memory takes about a microsecond, so a kernel looks only this often: one of 50 µs never does.
constexpr int64_t kAbortPollNs = 200000;
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kWarp = 32;

__global__ void spin_kernel(int64_t* stamps, int64_t kernel_ns, const volatile uint32_t* abort) {
  const int64_t start_ns = device_now_ns();
  stamps[0] = start_ns;
  int64_t poll_ns = kAbortPollNs;
  int64_t now_ns = start_ns;
  while (now_ns - start_ns < kernel_ns) {
    if (now_ns - start_ns >= poll_ns) {
      if (*abort != 0) {
        break;
      }
      poll_ns += kAbortPollNs;
    }
    now_ns = device_now_ns();
  }
  stamps[1] = now_ns;
}

// One block, so that __syncthreads_or is the reduction over all rows.
__global__ void update_kernel(DecodeState state, int64_t* stamps) {
  if (threadIdx.x == 0) {
    stamps[0] = device_now_ns();
  }
  const int64_t step = *state.sequence_number;
  bool is_live = false;
  for (int64_t b = threadIdx.x; b < state.rows; b += blockDim.x) {
    is_live = step_row(state, b, step) || is_live;
  }
  const bool is_any_live = __syncthreads_or(is_live) != 0;
  if (threadIdx.x == 0) {
    *state.not_need_stop = is_any_live;
    // The number is the last to change: who sees it sees the step's other values.
    __threadfence();
    *state.sequence_number = step + 1;
    stamps[1] = device_now_ns();
  }
}

}  // namespace

void launch_spin(StreamHandle stream, int64_t* stamps, int64_t kernel_ns, const volatile uint32_t* abort) {
  spin_kernel<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(stamps, kernel_ns, abort);
}

void launch_update(StreamHandle stream, const DecodeState& state, int64_t* stamps) {
  const int64_t whole_warps = (state.rows + kWarp - 1) / kWarp * kWarp;
  const int64_t threads = whole_warps < kMaxThreads ? whole_warps : kMaxThreads;
  update_kernel<<<1, static_cast<unsigned>(threads), 0, reinterpret_cast<cudaStream_t>(stream)>>>(state, stamps);
}

void load_decode_kernels() {
  cudaFuncAttributes attributes;
  FDPROF_CUDA(cudaFuncGetAttributes(&attributes, spin_kernel));
  FDPROF_CUDA(cudaFuncGetAttributes(&attributes, update_kernel));
}

}  // namespace fdprof::cuda
