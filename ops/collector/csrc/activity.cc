#include "activity.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "clock.h"
#include "cupti_library.h"
#include "records.h"

namespace fdprof {

namespace {

// What is lost when a process is killed is at most what lies in these: some 8,000 records each.
constexpr size_t BUFFER_BYTES = 1 << 20;
constexpr size_t READY_BUFFERS = 8;

const Cupti* cupti = nullptr;
CUpti_SubscriberHandle subscriber = nullptr;
bool tracing = false;
bool (*profiler_calls)(bool) = nullptr;
// As everything here that CUPTI's thread may use while the process ends: never destroyed.
auto& enabled = *new std::vector<CUpti_ActivityKind>;
std::atomic<bool> detaching{false};

// The recording that completed buffers go to; guarded, because CUPTI's own thread reads it.
std::mutex target_mutex;
auto& target = *new std::shared_ptr<Recording>;

std::shared_ptr<Recording> current_target() {
  const std::lock_guard<std::mutex> lock(target_mutex);
  return target;
}

// Buffers that were used before: the thread that asks for one is the one being measured, and new pages cost it time.
std::mutex buffers_mutex;
auto& buffers = *new std::vector<uint8_t*>;

uint8_t* new_buffer() {
  auto* buffer = static_cast<uint8_t*>(std::aligned_alloc(4096, BUFFER_BYTES));
  if (buffer != nullptr) {
    std::memset(buffer, 0, BUFFER_BYTES);
  }
  return buffer;
}

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = nullptr;
  {
    const std::lock_guard<std::mutex> lock(buffers_mutex);
    if (!buffers.empty()) {
      *buffer = buffers.back();
      buffers.pop_back();
    }
  }
  if (*buffer == nullptr) {
    *buffer = new_buffer();
  }
  *size = *buffer == nullptr ? 0 : BUFFER_BYTES;
  *most_records = 0;
}

// Called by CUPTI's own thread, or by the one that flushes.  No Python is needed for any of it.
void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_size) {
  const std::shared_ptr<Recording> into = current_target();
  if (into != nullptr) {
    append_records(*cupti, *into, buffer, valid_size);
    size_t dropped = 0;
    if (cupti->cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0) {
      into->dropped(dropped);
    }
  }
  std::memset(buffer, 0, valid_size);  // here, and not where the next one asks for it
  const std::lock_guard<std::mutex> lock(buffers_mutex);
  buffers.push_back(buffer);
}

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId callback, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API) {
    return;
  }
  if (callback == CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent) {
    // CUPTI's manual: safe at the exit of a CUDA call only, hence this detour through a call of our own.
    if (call->callbackSite == CUPTI_API_EXIT && detaching.exchange(false)) {
      cupti->cuptiFinalize();
    }
  } else if (profiler_calls != nullptr) {
    const bool starts = callback == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart;
    if (starts == (call->callbackSite == CUPTI_API_EXIT)) {  // on once Start is over, off before Stop begins
      profiler_calls(starts);
    }
  }
}

// Returns "" or why CUPTI cannot be had.
std::string attach() {
  if (subscriber != nullptr) {
    return "";
  }
  std::string why;
  cupti = Cupti::load(why);
  if (cupti == nullptr) {
    return "CUPTI is missing: " + why;
  }
  const CUptiResult result = cupti->cuptiSubscribe(&subscriber, &on_callback, nullptr);
  if (result != CUPTI_SUCCESS) {
    subscriber = nullptr;
    const bool held = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    return held ? "another tool holds CUPTI (a profiler or debugger of this process: Nsight, torch.profiler, ...)"
                : "CUPTI cannot be used: " + cupti->text_of(result);
  }
  return "";
}

bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

// The runtime's calls that neither give the device work nor wait for it, and come with every launch: a record of each
// would cost more than it tells.
[[maybe_unused]] bool is_idle_talk(std::string_view name) {
  for (const char* start :
       {"__cuda", "cudaGetDevice", "cudaSetDevice", "cudaGetLastError", "cudaPeekAtLastError", "cudaGetError",
        "cudaDeviceGetAttribute", "cudaDeviceGetStreamPriorityRange", "cudaFuncGetAttributes", "cudaFuncSetAttribute",
        "cudaFuncGetName", "cudaOccupancy", "cudaStreamIsCapturing", "cudaStreamGetCaptureInfo", "cudaStreamGetId",
        "cudaStreamGetPriority", "cudaStreamGetFlags", "cudaStreamGetDevice", "cudaPointerGetAttributes",
        "cudaDriverGetVersion", "cudaRuntimeGetVersion", "cudaThreadExchangeStreamCaptureMode",
        "cudaGetDriverEntryPoint", "cudaDeviceCanAccessPeer", "cudaGetSymbol", "cudaGetFuncBySymbol",
        "cudaGetExportTable"}) {
    if (begins(name, start)) {
      return true;
    }
  }
  return false;
}

// The runtime's calls that launch kernels, graphs or host functions.
[[maybe_unused]] bool is_launch(std::string_view name) {
  return begins(name, "cudaLaunch") || begins(name, "cudaGraphLaunch");
}

// The driver's calls but those that give the device work, wait for it or allocate.
[[maybe_unused]] bool is_of_no_interest(std::string_view name) {
  for (const char* start :
       {"cuLaunch", "cuMemcpy", "cuMemset", "cuStreamSynchronize", "cuStreamWait", "cuStreamQuery",
        "cuStreamBeginCapture", "cuStreamEndCapture", "cuEventRecord", "cuEventSynchronize", "cuEventQuery",
        "cuGraphLaunch", "cuCtxSynchronize", "cuMemAlloc", "cuMemFree", "cuMemHost", "cuMemCreate", "cuMemRelease",
        "cuMemMap", "cuMemUnmap"}) {
    if (begins(name, start)) {
      return false;
    }
  }
  return true;
}

using Switch = CUptiResult(CUPTIAPI*)(CUpti_CallbackId, uint8_t);

// Leaves out some of one API's functions, by name; CUPTI has no list of its ids, but refuses those that are none.
template <typename IsLeftOut>
[[maybe_unused]] void leave_out(CUpti_CallbackDomain domain, Switch set, IsLeftOut is_left_out) {
  constexpr uint32_t MOST_CALLBACKS = 4096;
  constexpr int MOST_UNNAMED = 64;
  int unnamed = 0;
  for (uint32_t id = 1; id < MOST_CALLBACKS && unnamed < MOST_UNNAMED; ++id) {
    const char* name = nullptr;
    if (cupti->cuptiGetCallbackName(domain, id, &name) != CUPTI_SUCCESS || name == nullptr) {
      ++unnamed;
    } else {
      unnamed = 0;
      if (is_left_out(name)) {
        set(id, 0);
      }
    }
  }
}

uint64_t CUPTIAPI timestamp() { return now_ns(); }

// CUPTI's id of the default stream, for contexts that were made before the recording began.
void note_current_context(Recording& into) {
  using GetCurrent = CUresult (*)(CUcontext*);
  const auto get = reinterpret_cast<GetCurrent>(driver_function("cuCtxGetCurrent"));
  CUcontext context = nullptr;
  if (get == nullptr || get(&context) != CUDA_SUCCESS || context == nullptr) {
    return;
  }
  ContextRow row{};
  if (cupti->cuptiGetContextId(context, &row.context) == CUPTI_SUCCESS &&
      cupti->cuptiGetDeviceId(context, &row.device) == CUPTI_SUCCESS &&
      cupti->cuptiGetStreamIdEx(context, nullptr, 0, &row.null_stream) == CUPTI_SUCCESS) {
    into.append(CONTEXT, &row, 1);
  }
}

void wait_for_device() {
  using Synchronize = CUresult (*)();
  const auto synchronize = reinterpret_cast<Synchronize>(driver_function("cuCtxSynchronize"));
  if (synchronize != nullptr) {
    synchronize();
  }
}

}  // namespace

std::string activity_begin(std::shared_ptr<Recording> into, const Options& options) {
  if (tracing) {
    return "CUDA is being traced already";
  }
  std::string why = attach();
  if (!why.empty()) {
    return why;
  }
  {
    const std::lock_guard<std::mutex> lock(buffers_mutex);
    while (buffers.size() < READY_BUFFERS) {
      uint8_t* buffer = new_buffer();
      if (buffer == nullptr) {
        break;
      }
      buffers.push_back(buffer);
    }
  }
  {
    const std::lock_guard<std::mutex> lock(target_mutex);
    target = std::move(into);
  }
  const auto require = [&](const char* what, CUptiResult result) {
    if (result != CUPTI_SUCCESS && why.empty()) {
      why = std::string(what) + ": " + cupti->text_of(result);
    }
  };
  require("cuptiSetThreadIdType", cupti->cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
  require("cuptiActivityRegisterTimestampCallback", cupti->cuptiActivityRegisterTimestampCallback(&timestamp));
  // Else CUPTI zeroes each buffer in the thread that is being measured, and a request took it 49 to 116 us (H200).
  uint8_t zeroed = 1;
  size_t size = sizeof zeroed;
  require("cuptiActivitySetAttribute",
          cupti->cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed));
  require("cuptiActivityRegisterCallbacks", cupti->cuptiActivityRegisterCallbacks(&buffer_requested, &buffer_completed));
  // Enables a kind if one of these bits is wanted; returns whether it is.
  const auto enable = [&](uint32_t bits, CUpti_ActivityKind kind) {
    if ((options.kinds & bits) == 0) {
      return false;
    }
    const CUptiResult result = cupti->cuptiActivityEnable(kind);
    require(("cuptiActivityEnable " + std::to_string(kind)).c_str(), result);
    if (result == CUPTI_SUCCESS) {
      enabled.push_back(kind);
    }
    return true;
  };
  enable(kinds::PLACES, CUPTI_ACTIVITY_KIND_CONTEXT);
  enable(kinds::PLACES, CUPTI_ACTIVITY_KIND_STREAM);
  enable(kinds::CUPTI_ITSELF, CUPTI_ACTIVITY_KIND_OVERHEAD);
  if (enable(kinds::LAUNCHES | kinds::OTHER_CALLS, CUPTI_ACTIVITY_KIND_RUNTIME)) {
#if CUPTI_API_VERSION >= 24
    leave_out(CUPTI_CB_DOMAIN_RUNTIME_API, cupti->cuptiActivityEnableRuntimeApi, [&](std::string_view name) {
      return is_idle_talk(name) || (options.kinds & (is_launch(name) ? kinds::LAUNCHES : kinds::OTHER_CALLS)) == 0;
    });
#endif
  }
  // Whole, and then less: enabling single functions gave no record of them (libcupti 13.0, H200).
  if (enable(kinds::DRIVER_CALLS, CUPTI_ACTIVITY_KIND_DRIVER)) {
#if CUPTI_API_VERSION >= 24
    leave_out(CUPTI_CB_DOMAIN_DRIVER_API, cupti->cuptiActivityEnableDriverApi, &is_of_no_interest);
#endif
  }
  enable(kinds::WAITS, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  enable(kinds::EVENTS, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  enable(kinds::COPIES, CUPTI_ACTIVITY_KIND_MEMCPY);
  enable(kinds::COPIES, CUPTI_ACTIVITY_KIND_MEMCPY2);
  enable(kinds::COPIES, CUPTI_ACTIVITY_KIND_MEMSET);
  enable(kinds::KERNELS, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (!options.nodes) {
    enable(kinds::GRAPHS, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  }
  tracing = true;
  if (!why.empty()) {
    activity_end(End::DETACH);
  }
  return why;
}

void activity_flush() {
  if (tracing) {
    cupti->cuptiActivityFlushAll(0);
  }
}

void activity_end(End how) {
  if (tracing) {
    const std::shared_ptr<Recording> into = current_target();
    if (how != End::AT_EXIT) {  // by then the driver may be half gone
      wait_for_device();
      if (into != nullptr) {
        note_current_context(*into);
      }
      for (const CUpti_ActivityKind kind : enabled) {
        cupti->cuptiActivityDisable(kind);
      }
      cupti->cuptiActivityFlushAll(0);
    }
    cupti->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    enabled.clear();
    const std::lock_guard<std::mutex> lock(target_mutex);
    target = nullptr;
    tracing = false;
  }
  if (how == End::DETACH && subscriber != nullptr) {
    using GetCurrent = CUresult (*)(CUcontext*);
    const auto get = reinterpret_cast<GetCurrent>(driver_function("cuCtxGetCurrent"));
    detaching = true;
    const bool watched = cupti->cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                                                    CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent) == CUPTI_SUCCESS;
    if (watched && get != nullptr) {
      CUcontext context = nullptr;
      get(&context);
    }
    if (detaching.exchange(false)) {  // the call did not reach CUPTI
      cupti->cuptiFinalize();
    }
    subscriber = nullptr;
    profiler_calls = nullptr;
  }
}

std::string cupti_text() {
  return cupti == nullptr ? "" : "CUPTI " + std::to_string(cupti->version) + ", " + cupti->path;
}

std::vector<std::string> device_names() {
  using GetCount = CUresult (*)(int*);
  using GetName = CUresult (*)(char*, int, CUdevice);
  const auto count_of = reinterpret_cast<GetCount>(driver_function("cuDeviceGetCount"));
  const auto name_of = reinterpret_cast<GetName>(driver_function("cuDeviceGetName"));
  std::vector<std::string> names;
  int count = 0;
  if (count_of == nullptr || name_of == nullptr || count_of(&count) != CUDA_SUCCESS) {
    return names;
  }
  for (int device = 0; device < count; ++device) {
    char name[128] = {};
    names.emplace_back(name_of(name, sizeof name - 1, device) == CUDA_SUCCESS ? name : "");
  }
  return names;
}

void activity_after_fork() {
  tracing = false;
  subscriber = nullptr;
  profiler_calls = nullptr;
}

std::string watch_profiler_calls(bool (*at)(bool starts)) {
  std::string why = attach();
  if (!why.empty()) {
    return why;
  }
  profiler_calls = at;
  for (const CUpti_CallbackId id : {CUPTI_DRIVER_TRACE_CBID_cuProfilerStart, CUPTI_DRIVER_TRACE_CBID_cuProfilerStop}) {
    const CUptiResult result = cupti->cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
    if (result != CUPTI_SUCCESS) {
      return "cuptiEnableCallback: " + cupti->text_of(result);
    }
  }
  return "";
}

}  // namespace fdprof
