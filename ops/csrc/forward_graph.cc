#include "forward_graph.h"

#include "cuda/kernels.h"
#include "cuda_check.h"
#include "mapped_memory.h"
#include "stream.h"

namespace fdprof {

#ifdef PADDLE_WITH_CUDA

namespace {

// Ends itself when a call between fails: a graph left open would keep the stream in capture.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Thread-local: other threads may allocate meanwhile.
    FDPROF_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    is_open_ = true;
  }

  ~Capture() {
    if (is_open_) {
      cudaStreamEndCapture(stream_, &graph_);
    }
    if (graph_ != nullptr) {
      cudaGraphDestroy(graph_);
    }
  }

  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    is_open_ = false;
    FDPROF_CUDA(cudaStreamEndCapture(stream_, &graph_));
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool is_open_ = false;
};

}  // namespace

ForwardGraph::ForwardGraph(const DecodeState& state) {
  const Stream own;  // a capture on Paddle's stream would take in what Paddle does there
  const auto stream = reinterpret_cast<cudaStream_t>(own.handle());
  Capture capture(stream);
  for (int64_t kernel = 0; kernel < state.kernels; ++kernel) {
    cuda::launch_spin(own.handle(), state, kernel, abort_word().device);
  }
  FDPROF_CUDA(cudaGetLastError());
  cudaGraphExec_t executable = nullptr;
  FDPROF_CUDA(cudaGraphInstantiateWithFlags(&executable, capture.end(), 0));
  executable_ = executable;
  // The first launch would do it otherwise.
  const cudaError_t uploaded = cudaGraphUpload(executable, stream);
  const cudaError_t status = uploaded == cudaSuccess ? cudaStreamSynchronize(stream) : uploaded;
  if (status != cudaSuccess) {
    cudaGraphExecDestroy(executable);
    FDPROF_CUDA(status);
  }
}

ForwardGraph::~ForwardGraph() { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_)); }

void ForwardGraph::launch(StreamHandle stream) const {
  FDPROF_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), reinterpret_cast<cudaStream_t>(stream)));
}

#else

ForwardGraph::ForwardGraph(const DecodeState&) {}

ForwardGraph::~ForwardGraph() = default;

void ForwardGraph::launch(StreamHandle) const {}

#endif

}  // namespace fdprof
