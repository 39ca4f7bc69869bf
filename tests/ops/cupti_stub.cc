// A CUPTI that needs no GPU: each flush hands over one record of every kind that is enabled, and one of every function
// that is not left out.  So a test sees what the collector asked CUPTI for, in the rows that it wrote.
#include <cupti.h>

#include <cstdint>
#include <cstring>
#include <set>

#define STUB extern "C" __attribute__((visibility("default")))

namespace {

struct Function {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
  const char* name;
};

constexpr CUpti_CallbackDomain RUNTIME = CUPTI_CB_DOMAIN_RUNTIME_API;
constexpr CUpti_CallbackDomain DRIVER = CUPTI_CB_DOMAIN_DRIVER_API;
constexpr Function FUNCTIONS[] = {
    {RUNTIME, 1, "cudaLaunchKernel_v7000"},   {RUNTIME, 2, "cudaGraphLaunch_v10000"},
    {RUNTIME, 3, "cudaMemcpyAsync_v3020"},    {RUNTIME, 4, "cudaEventSynchronize_v3020"},
    {RUNTIME, 5, "cudaGetDevice_v3020"},      {RUNTIME, 6, "__cudaPushCallConfiguration_v7000"},
    {DRIVER, 1, "cuLaunchKernel"},            {DRIVER, 2, "cuCtxGetCurrent"},
};

std::set<CUpti_ActivityKind> enabled;
std::set<std::pair<CUpti_CallbackDomain, CUpti_CallbackId>> left_out;
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
CUpti_TimestampCallbackFunc clock_of = nullptr;

bool is_api(CUpti_ActivityKind kind) {
  return kind == CUPTI_ACTIVITY_KIND_RUNTIME || kind == CUPTI_ACTIVITY_KIND_DRIVER;
}

CUpti_CallbackDomain domain_of(CUpti_ActivityKind kind) { return kind == CUPTI_ACTIVITY_KIND_DRIVER ? DRIVER : RUNTIME; }

constexpr size_t RECORD_BYTES = 512;  // more than any record has

template <typename Record>
Record* record_at(uint8_t* buffer, size_t& used, CUpti_ActivityKind kind) {
  auto* record = reinterpret_cast<Record*>(buffer + used);
  record->kind = kind;
  used += RECORD_BYTES;
  return record;
}

template <typename Record>
void timed(uint8_t* buffer, size_t& used, CUpti_ActivityKind kind) {
  auto* record = record_at<Record>(buffer, used, kind);
  record->start = clock_of();
  record->end = record->start + 1;
}

void add(uint8_t* buffer, size_t& used, CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      for (const Function& function : FUNCTIONS) {
        if (function.domain == domain_of(kind) && left_out.count({function.domain, function.id}) == 0) {
          timed<CUpti_ActivityAPI>(buffer, used, kind);
          reinterpret_cast<CUpti_ActivityAPI*>(buffer + used - RECORD_BYTES)->cbid = function.id;
        }
      }
      break;
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      timed<CUpti_ActivityKernel4>(buffer, used, kind);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      timed<CUpti_ActivityMemcpy>(buffer, used, kind);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      timed<CUpti_ActivityMemcpyPtoP>(buffer, used, kind);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      timed<CUpti_ActivityMemset>(buffer, used, kind);
      break;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      timed<CUpti_ActivityGraphTrace>(buffer, used, kind);
      break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      timed<CUpti_ActivitySynchronization>(buffer, used, kind);
      break;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      timed<CUpti_ActivityOverhead>(buffer, used, kind);
      break;
    default:
      record_at<CUpti_Activity>(buffer, used, kind);
  }
}

CUptiResult set(CUpti_CallbackDomain domain, CUpti_CallbackId id, uint8_t on) {
  if (on != 0) {
    left_out.erase({domain, id});
  } else {
    left_out.insert({domain, id});
  }
  return CUPTI_SUCCESS;
}

}  // namespace

STUB CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "a result of the stub";
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*) {
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(1);
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }
STUB CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiFinalize() {
  enabled.clear();
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  for (const Function& function : FUNCTIONS) {
    if (function.domain == domain && function.id == id) {
      *name = function.name;
      return CUPTI_SUCCESS;
    }
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}
// As CUPTI's header says: what was left out before counts again when the kind is enabled.
STUB CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  enabled.insert(kind);
  if (is_api(kind)) {
    for (const Function& function : FUNCTIONS) {
      if (function.domain == domain_of(kind)) {
        set(function.domain, function.id, 1);
      }
    }
  }
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiActivityDisable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }  // kept for the flush behind it
STUB CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  clock_of = function;
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_size, CUpti_Activity** record) {
  uint8_t* next = *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + RECORD_BYTES;
  if (next >= buffer + valid_size) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if ((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == 0 || enabled.empty()) {
    return CUPTI_SUCCESS;
  }
  uint8_t* buffer = nullptr;
  size_t size = 0, most = 0, used = 0;
  request(&buffer, &size, &most);
  for (const CUpti_ActivityKind kind : enabled) {
    add(buffer, used, kind);
  }
  complete(nullptr, 0, buffer, size, used);
  return CUPTI_SUCCESS;
}
STUB CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; }
STUB CUptiResult cuptiGetContextId(CUcontext, uint32_t*) { return CUPTI_ERROR_INVALID_PARAMETER; }
STUB CUptiResult cuptiGetDeviceId(CUcontext, uint32_t*) { return CUPTI_ERROR_INVALID_PARAMETER; }
STUB CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream, uint8_t, uint32_t*) { return CUPTI_ERROR_INVALID_PARAMETER; }
STUB CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) { return CUPTI_SUCCESS; }
#if CUPTI_API_VERSION >= 24
STUB CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t on) { return set(RUNTIME, id, on); }
STUB CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t on) { return set(DRIVER, id, on); }
#endif
