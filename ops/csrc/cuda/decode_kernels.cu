#include "../cuda_check.h"
#include "device_clock.cuh"
#include "kernels.h"

namespace fdprof::cuda {
namespace {

// A read of mapped memory takes about a microsecond, so a kernel looks only this often: one of 50 µs never does.
constexpr int64_t kAbortPollNs = 200000;
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kWarp = 32;
constexpr size_t kMaxParameterBytes = 4096;  // of a kernel, before sm_70 with CUDA 12.1
static_assert(sizeof(DecodeState) + sizeof(Payloads) + sizeof(Inbox) + sizeof(Outbox) <= kMaxParameterBytes);

class CudaBlock {
 public:
  __device__ int64_t thread() const { return threadIdx.x; }
  __device__ int64_t threads() const { return blockDim.x; }
  __device__ int64_t now_ns() const { return device_now_ns(); }
  __device__ void barrier() const { __syncthreads(); }
  __device__ void fence_system() const { __threadfence_system(); }
  __device__ bool any(bool value) const { return __syncthreads_or(value) != 0; }

  // Whole warps only, which is how the blocks are launched.
  __device__ uint64_t sum(uint64_t value) const {
    __shared__ unsigned long long total;
    __syncthreads();  // an earlier sum has been read
    if (threadIdx.x == 0) {
      total = 0;
    }
    __syncthreads();
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value += __shfl_down_sync(0xffffffffu, value, distance);
    }
    if (threadIdx.x % kWarp == 0) {
      atomicAdd(&total, static_cast<unsigned long long>(value));
    }
    __syncthreads();
    return total;
  }
};

__global__ void spin_kernel(DecodeState state, int64_t kernel, const volatile uint32_t* abort) {
  const int64_t start_ns = device_now_ns();
  const int64_t step = *state.sequence_number;
  const int64_t kernel_ns = state.kernel_ns[step];
  int64_t* stamps = stamps_of(state, step, kernel);
  stamps[0] = start_ns;
  int64_t poll_ns = kAbortPollNs;
  int64_t now_ns = device_now_ns();
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

__global__ void __launch_bounds__(kMaxThreads)
    prepare_kernel(Outbox outbox, DecodeState state, Payloads payloads, Inbox inbox) {
  prepare_step(state, payloads, inbox, outbox, CudaBlock());
}

__global__ void __launch_bounds__(kMaxThreads)
    update_kernel(Outbox outbox, DecodeState state, Payloads payloads, int64_t launch_tokens) {
  update_step(state, payloads, outbox, launch_tokens, CudaBlock());
}

unsigned threads_for(int64_t work) {
  const int64_t whole_warps = (work + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(whole_warps < kMaxThreads ? whole_warps : kMaxThreads);
}

}  // namespace

void launch_spin(StreamHandle stream, const DecodeState& state, int64_t kernel, const volatile uint32_t* abort) {
  spin_kernel<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(state, kernel, abort);
}

void launch_prepare(StreamHandle stream, const DecodeState& state, const Payloads& payloads, const Inbox& inbox,
                    const Outbox& outbox, int64_t work) {
  prepare_kernel<<<1, threads_for(work), 0, reinterpret_cast<cudaStream_t>(stream)>>>(outbox, state, payloads, inbox);
}

void launch_update(StreamHandle stream, const DecodeState& state, const Payloads& payloads, const Outbox& outbox,
                   int64_t launch_tokens, int64_t work) {
  update_kernel<<<1, threads_for(work), 0, reinterpret_cast<cudaStream_t>(stream)>>>(outbox, state, payloads,
                                                                                      launch_tokens);
}

void load_decode_kernels() {
  cudaFuncAttributes attributes;
  FDPROF_CUDA(cudaFuncGetAttributes(&attributes, spin_kernel));
  FDPROF_CUDA(cudaFuncGetAttributes(&attributes, prepare_kernel));
  FDPROF_CUDA(cudaFuncGetAttributes(&attributes, update_kernel));
}

}  // namespace fdprof::cuda
