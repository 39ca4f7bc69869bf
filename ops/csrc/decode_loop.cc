#include "decode_loop.h"

#include "cuda/kernels.h"
#include "cuda_check.h"
#include "failure.h"
#include "host_clock.h"
#include "mapped_memory.h"

namespace fdprof {

DecodeLoop::DecodeLoop(const DecodeState& state, int64_t* stamps, int64_t max_steps, int64_t kernels,
                       int64_t kernel_ns)
    : state_(state), stamps_(stamps), max_steps_(max_steps), kernels_(kernels), kernel_ns_(kernel_ns) {
#ifdef PADDLE_WITH_CUDA
  cuda::load_kernels();
#endif
  abort_word();  // pinned allocation waits for the device: here, not in the first timed step
}

int64_t* DecodeLoop::stamps_of_step(const char* call) const {
  if (launched_steps_ >= max_steps_) {
    throw Failure(std::string("DecodeLoop.") + call + ": step " + std::to_string(launched_steps_) +
                      " has no place in stamps, which hold " + std::to_string(max_steps_) + " steps",
                  "make the loop with stamps for more steps");
  }
  return stamps_ + launched_steps_ * (kernels_ + 1) * 2;
}

#ifdef PADDLE_WITH_CUDA

void DecodeLoop::forward(StreamHandle stream) {
  int64_t* stamps = stamps_of_step("forward");
  const volatile uint32_t* abort = abort_word().device;
  for (int64_t kernel = 0; kernel < kernels_; ++kernel) {
    cuda::launch_spin(stream, stamps + kernel * 2, kernel_ns_, abort);
  }
  // Once for all launches: a failed launch stays the last error until it is read.
  FDPROF_CUDA(cudaGetLastError());
}

void DecodeLoop::update(StreamHandle stream) {
  cuda::launch_update(stream, state_, stamps_of_step("update") + kernels_ * 2);
  FDPROF_CUDA(cudaGetLastError());
  ++launched_steps_;
}

#else

void DecodeLoop::forward(StreamHandle) {
  int64_t* stamps = stamps_of_step("forward");
  for (int64_t kernel = 0; kernel < kernels_; ++kernel) {
    const int64_t start_ns = host_now_ns();
    int64_t now_ns = start_ns;
    while (now_ns - start_ns < kernel_ns_ && *abort_word().host == 0) {
      now_ns = host_now_ns();
    }
    stamps[kernel * 2] = start_ns;
    stamps[kernel * 2 + 1] = now_ns;
  }
}

void DecodeLoop::update(StreamHandle) {
  int64_t* stamps = stamps_of_step("update") + kernels_ * 2;
  stamps[0] = host_now_ns();
  const int64_t step = *state_.sequence_number;
  bool is_any_live = false;
  for (int64_t b = 0; b < state_.rows; ++b) {
    is_any_live = step_row(state_, b, step) || is_any_live;
  }
  *state_.not_need_stop = is_any_live;
  *state_.sequence_number = step + 1;
  stamps[1] = host_now_ns();
  ++launched_steps_;
}

#endif

}  // namespace fdprof
