#include "decode_loop.h"

#include <algorithm>
#include <atomic>

#include "cuda/kernels.h"
#include "cuda_check.h"
#include "failure.h"
#include "host_clock.h"

namespace fdprof {
namespace {

constexpr int64_t kWarp = 32;

size_t index_of(Producer producer) { return static_cast<size_t>(producer); }

#ifndef PADDLE_WITH_CUDA

// The calling thread as a block of one.
class SoleThread {
 public:
  int64_t thread() const { return 0; }
  int64_t threads() const { return 1; }
  int64_t now_ns() const { return host_now_ns(); }
  // For the compiler: what is published is read as words of another type than it was written as.
  void barrier() const { std::atomic_signal_fence(std::memory_order_seq_cst); }
  void fence_system() const { std::atomic_thread_fence(std::memory_order_seq_cst); }
  bool any(bool value) const { return value; }
  uint64_t sum(uint64_t value) const { return value; }
};

#endif

}  // namespace

DecodeLoop::DecodeLoop(const DecodeState& state, const std::array<Payloads, 2>& payloads, const Inbox& inbox,
                       int64_t max_steps, bool as_graph)
    : state_(state), payloads_(payloads), inbox_(inbox), max_steps_(max_steps) {
#ifdef PADDLE_WITH_CUDA
  cuda::load_kernels();
#endif
  abort_word();  // pinned allocation waits for the device: here, not in the first timed step
#ifdef PADDLE_WITH_CUDA
  if (as_graph && state.kernels > 0) {
    graph_ = std::make_unique<ForwardGraph>(state);
  }
#else
  static_cast<void>(as_graph);
#endif
  work_ = {work_of(Producer::Prepare), work_of(Producer::Update)};
}

void DecodeLoop::require_place_in_stamps(const char* call) const {
  if (launched_steps_ >= max_steps_) {
    throw Failure(std::string("DecodeLoop.") + call + ": step " + std::to_string(launched_steps_) +
                      " has no place in stamps, which hold " + std::to_string(max_steps_) + " steps",
                  "make the loop with stamps for more steps");
  }
}

// The step launched next is the one whose number the kernel will find on the device.
const Outbox& DecodeLoop::outbox_of_step(Producer producer) {
  Mail& mail = mail_[index_of(producer)];
  const auto slot_of_step = [this](const std::vector<void*>& slots) {
    return slots.empty() ? nullptr : slots[static_cast<size_t>(launched_steps_) % slots.size()];
  };
  for (size_t i = 0; i < mail.slots.size(); ++i) {
    mail.outbox.items[i].target = static_cast<char*>(slot_of_step(mail.slots[i]));
  }
  mail.outbox.token_mirror = static_cast<int64_t*>(slot_of_step(mail.token_slots));
  mail.outbox.stop_mirror = static_cast<bool*>(slot_of_step(mail.stop_slots));
  return mail.outbox;
}

// The longest of the loops that the threads share, so that each has one pass of it where the block is large enough.
int64_t DecodeLoop::work_of(Producer producer) const {
  int64_t work = std::max(state_.rows, mail_[index_of(producer)].outbox.words);
  const Payloads& payloads = payloads_[index_of(producer)];
  for (int64_t i = 0; i < payloads.count; ++i) {
    work = std::max(work, payloads.items[i].elements);
  }
  for (int64_t i = 0; producer == Producer::Prepare && i < inbox_.count; ++i) {
    work = std::max(work, inbox_.items[i].count);
  }
  return work;
}

std::unique_ptr<Publication> DecodeLoop::publish(const std::string& group, Producer producer,
                                                 const std::vector<PublishedTensor>& tensors, WaitStyle wait) {
  const std::string subject = "publish: group '" + group + "' ";
  if (launched_steps_ > 0) {
    throw Failure(subject + "comes after " + std::to_string(launched_steps_) + " steps were launched",
                  "publish before the first step");
  }
  Mail& mail = mail_[index_of(producer)];
  Outbox& outbox = mail.outbox;
  if (publications_ >= kMaxPublications || outbox.count + static_cast<int64_t>(tensors.size()) > kMaxOutgoing) {
    throw Failure(subject + "is too much: a loop publishes at most " + std::to_string(kMaxPublications) +
                  " groups, and a kernel " + std::to_string(kMaxOutgoing) + " tensors");
  }
  if (words_.host == nullptr) {
    // Not freed, like all memory that a kernel still queued may write: one page a loop that publishes.
    const Mapped<void> memory = mapped_allocate(sizeof(SequenceWord) * kMaxPublications + alignof(SequenceWord));
    const auto address = reinterpret_cast<std::uintptr_t>(memory.host);
    const std::uintptr_t shift = (alignof(SequenceWord) - address % alignof(SequenceWord)) % alignof(SequenceWord);
    words_.host = reinterpret_cast<SequenceWord*>(static_cast<char*>(memory.host) + shift);
    words_.device = reinterpret_cast<SequenceWord*>(static_cast<char*>(memory.device) + shift);
  }
  auto publication = std::make_unique<Publication>(group, words_.host + publications_, wait);
  for (const PublishedTensor& tensor : tensors) {
    if (tensor.source == state_.sampled_token_ids || tensor.source == state_.not_need_stop) {
      (tensor.source == state_.not_need_stop ? mail.stop_slots : mail.token_slots) = tensor.slots;
      continue;
    }
    Outgoing& item = outbox.items[outbox.count];
    item.source = static_cast<const char*>(tensor.source);
    item.size_bytes = tensor.size_bytes;
    item.first = outbox.words;
    const int64_t words = (tensor.size_bytes + kWordBytes - 1) / kWordBytes;
    outbox.words += (words + kWarp - 1) / kWarp * kWarp;
    ++outbox.count;
    mail.slots.push_back(tensor.slots);
  }
  outbox.sequence[outbox.publications++] = &words_.device[publications_++].published_steps;
  work_[index_of(producer)] = work_of(producer);
  return publication;
}

#ifdef PADDLE_WITH_CUDA

void DecodeLoop::prepare(StreamHandle stream) {
  require_place_in_stamps("prepare");
  cuda::launch_prepare(stream, state_, payloads_[index_of(Producer::Prepare)], inbox_,
                       outbox_of_step(Producer::Prepare), work_[index_of(Producer::Prepare)]);
  FDPROF_CUDA(cudaGetLastError());
}

void DecodeLoop::forward(StreamHandle stream) {
  require_place_in_stamps("forward");
  if (graph_ != nullptr) {
    graph_->launch(stream);
    return;
  }
  const volatile uint32_t* abort = abort_word().device;
  for (int64_t kernel = 0; kernel < state_.kernels; ++kernel) {
    cuda::launch_spin(stream, state_, kernel, abort);
  }
  // Once for all launches: a failed launch stays the last error until it is read.
  FDPROF_CUDA(cudaGetLastError());
}

void DecodeLoop::update(StreamHandle stream, int64_t launch_tokens) {
  require_place_in_stamps("update");
  cuda::launch_update(stream, state_, payloads_[index_of(Producer::Update)], outbox_of_step(Producer::Update),
                      launch_tokens, work_[index_of(Producer::Update)]);
  FDPROF_CUDA(cudaGetLastError());
  ++launched_steps_;
}

#else

void DecodeLoop::prepare(StreamHandle) {
  require_place_in_stamps("prepare");
  prepare_step(state_, payloads_[index_of(Producer::Prepare)], inbox_, outbox_of_step(Producer::Prepare),
               SoleThread());
}

void DecodeLoop::forward(StreamHandle) {
  require_place_in_stamps("forward");
  const int64_t step = *state_.sequence_number;
  for (int64_t kernel = 0; kernel < state_.kernels; ++kernel) {
    const int64_t start_ns = host_now_ns();
    int64_t now_ns = start_ns;
    while (now_ns - start_ns < state_.kernel_ns[step] && *abort_word().host == 0) {
      now_ns = host_now_ns();
    }
    int64_t* stamps = stamps_of(state_, step, kernel);
    stamps[0] = start_ns;
    stamps[1] = now_ns;
  }
}

void DecodeLoop::update(StreamHandle, int64_t launch_tokens) {
  require_place_in_stamps("update");
  update_step(state_, payloads_[index_of(Producer::Update)], outbox_of_step(Producer::Update), launch_tokens,
              SoleThread());
  ++launched_steps_;
}

#endif

}  // namespace fdprof
