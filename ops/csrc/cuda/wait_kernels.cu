#include "../cuda_check.h"
#include "device_clock.cuh"
#include "kernels.h"

namespace fdprof::cuda {
namespace {

__global__ void latch_kernel(LatchWords* words, int64_t timeout_ns, const volatile uint32_t* abort) {
  const int64_t start_ns = device_now_ns();
  while (words->released == 0) {
    if (*abort != 0 || device_now_ns() - start_ns >= timeout_ns) {
      words->timed_out = 1;
      break;
    }
    rest();
  }
}

__global__ void clock_server_kernel(ClockMailbox* mailbox, int64_t rounds, int64_t timeout_ns,
                                    const volatile uint32_t* abort) {
  const int64_t start_ns = device_now_ns();
  // Looking for an end costs a read over the bus, which must not fall into a round trip each time.
  constexpr int64_t kEndPollNs = 100000;
  int64_t poll_ns = kEndPollNs;
  for (int64_t round = 1; round <= rounds; ++round) {
    while (mailbox->request < static_cast<uint64_t>(round)) {
      const int64_t spent_ns = device_now_ns() - start_ns;
      if (spent_ns >= poll_ns) {
        if (mailbox->quit != 0 || *abort != 0 || spent_ns >= timeout_ns) {
          return;
        }
        poll_ns = spent_ns + kEndPollNs;
      }
    }
    mailbox->device_ns = device_now_ns();
    __threadfence_system();  // the stamp must reach the host before the number that announces it
    mailbox->answer = static_cast<uint64_t>(round);
  }
}

}  // namespace

void launch_latch(StreamHandle stream, LatchWords* words, int64_t timeout_ns, const volatile uint32_t* abort) {
  latch_kernel<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(words, timeout_ns, abort);
}

void launch_clock_server(StreamHandle stream, ClockMailbox* mailbox, int64_t rounds, int64_t timeout_ns,
                         const volatile uint32_t* abort) {
  clock_server_kernel<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(mailbox, rounds, timeout_ns, abort);
}

void load_wait_kernels() {
  cudaFuncAttributes attributes;
  FDPROF_CUDA(cudaFuncGetAttributes(&attributes, latch_kernel));
  FDPROF_CUDA(cudaFuncGetAttributes(&attributes, clock_server_kernel));
}

}  // namespace fdprof::cuda
