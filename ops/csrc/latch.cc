#include "latch.h"

#include <mutex>
#include <vector>

#include "cuda/kernels.h"
#include "cuda_check.h"
#include "failure.h"
#include "mapped_memory.h"

namespace fdprof {

#ifdef PADDLE_WITH_CUDA

// The words a kernel polls, and the event after that kernel.  Reused, because pinned allocation waits for the device;
// given back only once the kernel is over, because a reused word would hold an older kernel again.
struct Latch::Cell {
  Mapped<LatchWords> words;
  cudaEvent_t done = nullptr;
};

namespace {

std::mutex& pool_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// Holds Latch::Cell objects that no kernel reads; never destroyed, because latches may outlive static objects.
template <typename Cell>
std::vector<Cell*>& pool() {
  static auto* const cells = new std::vector<Cell*>;
  return *cells;
}

}  // namespace

Latch::Latch(int64_t timeout_ns) : timeout_ns_(timeout_ns) {
  use_device();
  cuda::load_kernels();
  abort_word();
  {
    const std::lock_guard<std::mutex> lock(pool_mutex());
    auto& cells = pool<Cell>();
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cudaEventQuery(cells[i]->done) == cudaSuccess) {
        cell_ = cells[i];
        cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
      cudaGetLastError();  // not ready is not an error
    }
  }
  if (cell_ == nullptr) {
    auto* cell = new Cell;
    try {
      cell->words = mapped_new<LatchWords>();
      FDPROF_CUDA(cudaEventCreateWithFlags(&cell->done, cudaEventDisableTiming));
    } catch (...) {
      delete cell;
      throw;
    }
    cell_ = cell;
  }
  cell_->words.host->released = 0;
  cell_->words.host->timed_out = 0;
}

Latch::~Latch() {
  cell_->words.host->released = 1;
  const std::lock_guard<std::mutex> lock(pool_mutex());
  pool<Cell>().push_back(cell_);
}

void Latch::launch(StreamHandle stream) {
  if (is_launched_) {
    throw Failure("Latch.launch: this latch was launched before", "make a new Latch for each launch");
  }
  cuda::launch_latch(stream, cell_->words.device, timeout_ns_, abort_word().device);
  FDPROF_CUDA(cudaGetLastError());
  is_launched_ = true;
  FDPROF_CUDA(cudaEventRecord(cell_->done, reinterpret_cast<cudaStream_t>(stream)));
}

void Latch::release() { cell_->words.host->released = 1; }

bool Latch::timed_out() const { return cell_->words.host->timed_out != 0; }

#else

struct Latch::Cell {};

Latch::Latch(int64_t timeout_ns) : timeout_ns_(timeout_ns) {}

Latch::~Latch() = default;

void Latch::launch(StreamHandle) {
  throw Failure("Latch.launch: the ops are built for the CPU, where kernels run in the calling thread; "
                "a host cannot block itself",
                "use a CUDA GPU and paddlepaddle-gpu for what needs a latch");
}

void Latch::release() {}

bool Latch::timed_out() const { return false; }

#endif

}  // namespace fdprof
