// DecodeLoop for Python: tensors in, checked, and kept alive as long as the kernels may write them.
#include <map>
#include <optional>
#include <utility>

#include "bindings.h"
#include "decode_loop.h"
#include "failure.h"
#include "host_memory.h"
#include "paddle_tensor.h"
#include "stream.h"

namespace fdprof {
namespace {

using Tensor = paddle::Tensor;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using phi::DataType;

constexpr const char* kTask = "insert_task";

// 64-bit FNV-1a.
uint64_t name_tag(const std::string& name) {
  uint64_t value = 0xCBF29CE484222325ull;
  for (const char letter : name) {
    value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001B3ull;
  }
  return value;
}

PayloadType payload_type(const std::string& name, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DataType::INT64:
      return PayloadType::Int64;
    case DataType::INT32:
      return PayloadType::Int32;
    case DataType::FLOAT32:
      return PayloadType::Float32;
    case DataType::BOOL:
      return PayloadType::Bool;
    default:
      throw Failure("DecodeLoop: payload `" + name + "` is " + describe(tensor) +
                    ", expected int64, int32, float32 or bool");
  }
}

Producer producer_named(const std::string& name) {
  if (name == "prepare") return Producer::Prepare;
  if (name == "update") return Producer::Update;
  throw std::invalid_argument("DecodeLoop.publish: made_by must be 'prepare' or 'update', got '" + name + "'");
}

// As the kernels address a host tensor.
void* kernel_address(const Tensor& tensor) {
#ifdef PADDLE_WITH_CUDA
  return reinterpret_cast<void*>(device_pointer(tensor));
#else
  return memory_of(tensor, "publish: the slot").address;
#endif
}

struct Numbers {
  uint64_t seed;
  int64_t mean_length;
  int64_t last_step;
  int64_t kernels;
  int64_t kv_block_tokens;
  int64_t draft_tokens;
  std::string launch;
};

class BoundDecodeLoop {
 public:
  BoundDecodeLoop(std::map<std::string, Tensor> tensors, NamedTensors prepare_payloads, NamedTensors update_payloads,
                  NamedTensors inbox, const Numbers& numbers)
      : tensors_(std::move(tensors)),
        payloads_{std::move(prepare_payloads), std::move(update_payloads)},
        inbox_(std::move(inbox)),
        loop_(state(checked(numbers)), {payloads(0, numbers.seed), payloads(1, numbers.seed)}, inbox_of_kernel(),
              extent("stamps"), numbers.launch == "graph") {}

  void prepare() { loop_.prepare(current_stream()); }
  void forward() { loop_.forward(current_stream()); }
  void update(int64_t launch_tokens, const Stream* stream) {
    loop_.update(stream == nullptr ? current_stream() : stream->handle(), launch_tokens);
  }
  int64_t launched_steps() const { return loop_.launched_steps(); }

  std::unique_ptr<Publication> publish(const std::string& group, const std::string& made_by,
                                       const std::vector<Tensor>& sources,
                                       const std::vector<std::vector<Tensor>>& slots, const std::string& wait) {
    const std::string subject = "publish: group '" + group + "'";
    if (sources.empty() || slots.empty()) {
      throw std::invalid_argument(subject + " needs a tensor and a slot at least");
    }
    std::vector<PublishedTensor> published;
    for (size_t i = 0; i < sources.size(); ++i) {
      const Memory source = memory_of(sources[i], "publish: the source");
      PublishedTensor tensor{source.address, {}, source.size_bytes};
      for (const std::vector<Tensor>& slot : slots) {
        if (slot.size() != sources.size()) {
          throw std::invalid_argument(subject + " has " + std::to_string(sources.size()) + " tensors and a slot of " +
                                      std::to_string(slot.size()));
        }
        const Memory target = memory_of(slot[i], "publish: the slot");
        const auto addresses = reinterpret_cast<std::uintptr_t>(source.address) |
                               reinterpret_cast<std::uintptr_t>(target.address);
        if (target.is_on_device || target.size_bytes != source.size_bytes || addresses % kWordBytes != 0) {
          throw Failure(subject + " cannot go from " + describe(sources[i]) + " to " + describe(slot[i]),
                        "slots are host tensors of the sources' sizes, from pinned_tensor(shape, dtype, mapped=True)");
        }
        tensor.slots.push_back(kernel_address(slot[i]));
      }
      published.push_back(std::move(tensor));
    }
    auto publication =
        loop_.publish(group, producer_named(made_by), published, wait_style_named(wait, "DecodeLoop.publish"));
    kept_.insert(kept_.end(), sources.begin(), sources.end());
    for (const std::vector<Tensor>& slot : slots) {
      kept_.insert(kept_.end(), slot.begin(), slot.end());
    }
    return publication;
  }

 private:
  static const Numbers& checked(const Numbers& numbers) {
    constexpr int64_t kMost = int64_t{1} << 30;  // lengths below 2 * mean_length are stored as int32
    if (numbers.mean_length < 1 || numbers.mean_length > kMost || numbers.last_step < 0 || numbers.kernels < 0 ||
        numbers.kv_block_tokens < 0 || numbers.draft_tokens < 0 || numbers.draft_tokens > kMost) {
      throw std::invalid_argument(
          "DecodeLoop: mean_length must be 1 to 2**30, and last_step, kernels, kv_block_tokens and draft_tokens at "
          "least 0");
    }
    if (numbers.launch != "kernels" && numbers.launch != "graph") {
      throw std::invalid_argument("DecodeLoop: launch must be 'kernels' or 'graph', got '" + numbers.launch + "'");
    }
    return numbers;
  }

  // The first extent of a tensor; 1 where it has none, for the check of its shape to refuse.
  int64_t extent(const char* name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end() || !found->second.initialized() || found->second.shape().empty()) {
      return 1;
    }
    return found->second.shape()[0];
  }

  template <typename T>
  T* given(const char* name, DataType dtype, const std::vector<int64_t>& shape) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return nullptr;
    }
    return static_cast<T*>(require_kernel_tensor(found->second, name, dtype, shape));
  }

  template <typename T>
  T* needed(const char* name, DataType dtype, const std::vector<int64_t>& shape) const {
    T* memory = given<T>(name, dtype, shape);
    if (memory == nullptr) {
      throw Failure("DecodeLoop: `" + std::string(name) + "` is missing");
    }
    return memory;
  }

  DecodeState state(const Numbers& numbers) const {
    const int64_t rows = extent("request");
    const int64_t max_steps = extent("stamps");
    const int64_t width = numbers.draft_tokens + 1;
    DecodeState state{};
    state.sequence_number = needed<int64_t>("sequence_number", DataType::INT64, {1});
    state.request = needed<int64_t>("request", DataType::INT64, {rows});
    state.position = needed<int32_t>("position", DataType::INT32, {rows});
    state.length = needed<int32_t>("length", DataType::INT32, {rows});
    state.prompt_hash = needed<int64_t>("prompt_hash", DataType::INT64, {rows});
    state.blocked = needed<bool>("blocked", DataType::BOOL, {rows});
    state.seq_lens_this_time = given<int32_t>("seq_lens_this_time", DataType::INT32, {rows, 1});
    state.is_block_step = given<bool>("is_block_step", DataType::BOOL, {rows});
    state.real_output_token_num = given<int32_t>("real_output_token_num", DataType::INT32, {1});
    state.sampled_token_ids = needed<int64_t>("sampled_token_ids", DataType::INT64, {rows, 1});
    state.not_need_stop = needed<bool>("not_need_stop", DataType::BOOL, {1});
    state.accept_tokens = given<int64_t>("accept_tokens", DataType::INT64, {rows, width});
    state.accept_num = given<int32_t>("accept_num", DataType::INT32, {rows});
    state.seq_lens_decoder = given<int32_t>("seq_lens_decoder", DataType::INT32, {rows, 1});
    state.prompt_lens = given<int64_t>("prompt_lens", DataType::INT64, {rows, 1});
    state.stamps = needed<int64_t>("stamps", DataType::INT64, {max_steps, numbers.kernels + 2, 2});
    state.kernel_ns = needed<int64_t>("kernel_ns", DataType::INT64, {max_steps});
    state.rows = rows;
    state.kernels = numbers.kernels;
    state.seed = numbers.seed;
    state.mean_length = static_cast<uint64_t>(numbers.mean_length);
    state.last_step = numbers.last_step;
    state.kv_block_tokens = numbers.kv_block_tokens;
    state.draft_tokens = numbers.draft_tokens;
    return state;
  }

  Payloads payloads(size_t producer, uint64_t seed) const {
    const NamedTensors& named = payloads_[producer];
    if (named.size() > static_cast<size_t>(kMaxPayloads)) {
      throw Failure("DecodeLoop: a kernel makes at most " + std::to_string(kMaxPayloads) + " payload tensors, got " +
                    std::to_string(named.size()));
    }
    Payloads made{};
    for (const auto& [name, tensor] : named) {
      void* values = require_kernel_tensor(tensor, name.c_str(), tensor.dtype(), tensor.shape());
      made.items[made.count++] =
          Payload{values, tensor.numel(), mix64(mix64(seed) ^ name_tag(name)), payload_type(name, tensor)};
    }
    return made;
  }

  Inbox inbox_of_kernel() const {
    Inbox inbox{};
    for (const auto& [name, tensor] : inbox_) {
      if (name == kTask) {
        inbox.task = static_cast<const int64_t*>(require_kernel_tensor(tensor, kTask, DataType::INT64, {4}));
        continue;
      }
      void* words = require_kernel_tensor(tensor, name.c_str(), tensor.dtype(), tensor.shape());
      const int64_t size_bytes = memory_of(tensor, name.c_str()).size_bytes;
      constexpr int64_t kLetterWordBytes = 4;
      if (size_bytes % kLetterWordBytes != 0 || inbox.count == kMaxLetters) {
        throw Failure("DecodeLoop: inbox tensor `" + name + "` is " + describe(tensor) + ", expected at most " +
                      std::to_string(kMaxLetters) + " tensors whose sizes are multiples of 4 bytes");
      }
      inbox.items[inbox.count++] =
          Letter{static_cast<const uint32_t*>(words), size_bytes / kLetterWordBytes, name_tag(name)};
    }
    return inbox;
  }

  std::map<std::string, Tensor> tensors_;
  std::array<NamedTensors, 2> payloads_;
  NamedTensors inbox_;
  std::vector<Tensor> kept_;
  DecodeLoop loop_;
};

}  // namespace

void bind_decode_loop(py::module_& m) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<Publication>(m, "Publication", "A group that its kernel writes to mapped memory; DecodeLoop.publish().")
      .def("poll",
           [](const Publication& self, int64_t step, double timeout_s) { self.poll(step, timeout_ns(timeout_s)); },
           py::arg("step"), py::arg("timeout_s"), Unlocked(),
           "Wait, with the GIL released, until the values of `step` are in their slot.\n\n"
           "After timeout_s the waiting kernels of fdprof are ended and ScenarioFailed names the group.")
      .def_property_readonly("published_steps", &Publication::published_steps, "How many steps are published.");
  py::class_<BoundDecodeLoop>(
      m, "DecodeLoop",
      "The device side of a decode loop: a step is prepare() (if wanted), forward() and update().  Every value equals\n"
      "fdprof.tokens.Reference step by step.\n\n"
      "`tensors` by name are on Paddle's current device (CPU without CUDA), with B rows and D = draft_tokens.  State,\n"
      "with start values from initial_state(): sequence_number int64 [1], request int64 [B], position int32 [B],\n"
      "length int32 [B], prompt_hash int64 [B], blocked bool [B].  Of time: kernel_ns int64 [max_steps], stamps int64\n"
      "[max_steps, kernels + 2, 2], start and end in ns of %globaltimer (CLOCK_MONOTONIC without CUDA) of the forward\n"
      "kernels, then update, then prepare.  Made: sampled_token_ids int64 [B, 1], not_need_stop bool [1]; and, where\n"
      "given, by prepare seq_lens_this_time int32 [B, 1], is_block_step bool [B], real_output_token_num int32 [1],\n"
      "by update accept_tokens int64 [B, D + 1], accept_num int32 [B], seq_lens_decoder int32 [B, 1], prompt_lens\n"
      "int64 [B, 1].  Payloads are (name, tensor) that prepare or update makes, `inbox` (name, tensor) the host\n"
      "sends; an `insert_task` int64 [4] there is (step, row, request, 0).  With draft_tokens no row waits for a\n"
      "block.  launch=\"graph\" captures the forward kernels once and replays them.  The loop keeps references to all\n"
      "tensors.\n"
      "Raises ScenarioFailed naming the tensor that is missing or has another dtype, shape or place.")
      .def(py::init([](std::map<std::string, Tensor> tensors, uint64_t seed, int64_t mean_length, int64_t last_step,
                       int64_t kernels, int64_t kv_block_tokens, int64_t draft_tokens, const std::string& launch,
                       NamedTensors prepare_payloads, NamedTensors update_payloads, NamedTensors inbox) {
             return std::make_unique<BoundDecodeLoop>(
                 std::move(tensors), std::move(prepare_payloads), std::move(update_payloads), std::move(inbox),
                 Numbers{seed, mean_length, last_step, kernels, kv_block_tokens, draft_tokens, launch});
           }),
           py::arg("tensors"), py::kw_only(), py::arg("seed"), py::arg("mean_length"), py::arg("last_step"),
           py::arg("kernels"), py::arg("kv_block_tokens") = 0, py::arg("draft_tokens") = 0,
           py::arg("launch") = "kernels", py::arg("prepare_payloads") = NamedTensors(),
           py::arg("update_payloads") = NamedTensors(), py::arg("inbox") = NamedTensors())
      .def("prepare", &BoundDecodeLoop::prepare,
           "Launch the step's pre-processing kernel on Paddle's current stream; raises ScenarioFailed past max_steps.")
      .def("forward", &BoundDecodeLoop::forward,
           "Launch the step's `kernels` kernels on Paddle's current stream; raises ScenarioFailed past max_steps.")
      .def("update", &BoundDecodeLoop::update, py::arg("launch_tokens") = -1, py::arg("stream") = py::none(),
           "Launch the step's update kernel on a Stream (None: Paddle's current) and count the step as launched.\n\n"
           "With 0 <= launch_tokens < active rows, as many rows at the end of the batch are left as they are.")
      .def("publish", &BoundDecodeLoop::publish, py::arg("group"), py::arg("made_by"), py::arg("sources"),
           py::arg("slots"), py::arg("wait") = "spin",
           "Let the kernel `made_by` (\"prepare\", \"update\") write the sources of step s to slots[s % count].\n\n"
           "Slots are lists of pinned_tensor(mapped=True).  Before the first step.  wait is spin, poll or yield.\n"
           "Returns the Publication to poll.  The loop keeps references to sources and slots.")
      .def_property_readonly("launched_steps", &BoundDecodeLoop::launched_steps, "How many updates were launched.");
}

}  // namespace fdprof
