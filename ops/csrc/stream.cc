#include "stream.h"

#include "cuda_check.h"
#include "failure.h"
#include "watchdog.h"

namespace fdprof {

#ifdef PADDLE_WITH_CUDA

static cudaStream_t raw(StreamHandle stream) { return reinterpret_cast<cudaStream_t>(stream); }

Stream::Stream() {
  use_device();
  cudaStream_t stream = nullptr;
  FDPROF_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  handle_ = reinterpret_cast<StreamHandle>(stream);
}

// The driver releases the stream when its queued work is done; the call does not wait.
Stream::~Stream() { cudaStreamDestroy(raw(handle_)); }

bool Stream::query() const {
  const cudaError_t status = cudaStreamQuery(raw(handle_));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  FDPROF_CUDA(status);
  return true;
}

void synchronize_stream(StreamHandle stream, int64_t timeout_ns) {
  Watch watch("the synchronisation of the stream", timeout_ns);
  const cudaError_t status = cudaStreamSynchronize(raw(stream));
  watch.finish();
  FDPROF_CUDA(status);
}

#else

Stream::Stream() = default;

Stream::~Stream() = default;

bool Stream::query() const { return true; }

void synchronize_stream(StreamHandle, int64_t) {}

#endif

void stream_wait(StreamHandle stream, const Event& event) {
  if (!event.recorded()) {
    throw Failure("Stream.wait_event: the event was never recorded, so the stream would not wait for anything",
                  "call record() first");
  }
#ifdef PADDLE_WITH_CUDA
  FDPROF_CUDA(cudaStreamWaitEvent(raw(stream), static_cast<cudaEvent_t>(event.handle()), 0));
#else
  static_cast<void>(stream);
#endif
}

void Stream::wait_event(const Event& event) const { stream_wait(handle_, event); }

void Stream::synchronize(int64_t timeout_ns) const { synchronize_stream(handle_, timeout_ns); }

}  // namespace fdprof
