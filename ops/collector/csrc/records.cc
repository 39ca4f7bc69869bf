#include "records.h"

#include <cxxabi.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "names.h"

namespace fdprof {

namespace {

// Rows of one buffer, handed over together.
struct Batch {
  std::vector<ApiRow> api;
  std::vector<WorkRow> work;
  std::vector<SyncRow> syncs;
  std::vector<EventRow> events;
  std::vector<OverheadRow> overhead;
  std::vector<ContextRow> contexts;
  std::vector<StreamRow> streams;

  template <typename Row>
  static void hand_over(Recording& into, Table table, std::vector<Row>& rows) {
    if (!rows.empty()) {
      into.append(table, rows.data(), rows.size());
      rows.clear();
    }
  }

  void hand_over(Recording& into) {
    hand_over(into, API, api);
    hand_over(into, WORK, work);
    hand_over(into, SYNC, syncs);
    hand_over(into, EVENT, events);
    hand_over(into, OVERHEAD, overhead);
    hand_over(into, CONTEXT, contexts);
    hand_over(into, STREAM, streams);
  }
};

uint32_t kernel_name(Recording& into, const char* mangled) {
  if (mangled == nullptr) {
    return 0;
  }
  const uint32_t number = number_of(mangled);
  if (!into.knows_name(number)) {
    int status = 0;
    // Only what is mangled: "f", a kernel of extern "C", would come out as the type float.
    const bool is_mangled = mangled[0] == '_' && mangled[1] == 'Z';
    char* plain = is_mangled ? abi::__cxa_demangle(mangled, nullptr, nullptr, &status) : nullptr;
    into.name(number, plain == nullptr ? mangled : plain);
    std::free(plain);
  }
  return number;
}

void add_api(const Cupti& cupti, Recording& into, Batch& batch, const CUpti_Activity* record) {
  const auto* call = reinterpret_cast<const CUpti_ActivityAPI*>(record);
  const bool of_driver = call->kind == CUPTI_ACTIVITY_KIND_DRIVER;
  const uint32_t domain = of_driver ? 1 : 0;
  if (!into.knows_callback(domain, call->cbid)) {
    const char* name = nullptr;
    cupti.cuptiGetCallbackName(of_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, call->cbid, &name);
    into.callback_name(domain, call->cbid, name == nullptr ? "" : name);
  }
  batch.api.push_back({call->start, call->end, call->threadId, call->correlationId, call->cbid, domain});
}

void add_work(Recording& into, Batch& batch, const WorkRow& row) {
  if (row.end_ns == 0 || row.start_ns == 0) {
    into.untimed(1);
  } else {
    batch.work.push_back(row);
  }
}

void add(const Cupti& cupti, Recording& into, Batch& batch, const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      add_api(cupti, into, batch, record);
      break;
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel4*>(record);
      add_work(into, batch,
               {kernel->start, kernel->end, 0, kernel->correlationId, kernel->deviceId, kernel->contextId,
                kernel->streamId, kernel_name(into, kernel->name), KERNEL, 0, 0, 0});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy*>(record);
      add_work(into, batch,
               {copy->start, copy->end, copy->bytes, copy->correlationId, copy->deviceId, copy->contextId,
                copy->streamId, 0, COPY, copy->copyKind, copy->srcKind, copy->dstKind});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP*>(record);
      add_work(into, batch,
               {copy->start, copy->end, copy->bytes, copy->correlationId, copy->deviceId, copy->contextId,
                copy->streamId, 0, COPY, copy->copyKind, copy->srcKind, copy->dstKind});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* set = reinterpret_cast<const CUpti_ActivityMemset*>(record);
      add_work(into, batch,
               {set->start, set->end, set->bytes, set->correlationId, set->deviceId, set->contextId, set->streamId, 0,
                MEMSET, 0, 0, static_cast<uint8_t>(set->memoryKind)});
      break;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const auto* graph = reinterpret_cast<const CUpti_ActivityGraphTrace*>(record);
      add_work(into, batch,
               {graph->start, graph->end, 0, graph->correlationId, graph->deviceId, graph->contextId, graph->streamId,
                0, GRAPH, 0, 0, 0});
      break;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
      const auto* sync = reinterpret_cast<const CUpti_ActivitySynchronization*>(record);
      uint64_t event_sync = 0;
#if CUPTI_API_VERSION >= 26  // CUDA 12.8
      event_sync = reinterpret_cast<const CUpti_ActivitySynchronization2*>(record)->cudaEventSyncId;
#endif
      batch.syncs.push_back({sync->start, sync->end, event_sync, sync->correlationId,
                             static_cast<uint32_t>(sync->type), sync->contextId, sync->streamId, sync->cudaEventId, 0});
      break;
    }
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: {
      const auto* event = reinterpret_cast<const CUpti_ActivityCudaEvent*>(record);
      uint64_t event_sync = 0;
#if CUPTI_API_VERSION >= 26
      event_sync = reinterpret_cast<const CUpti_ActivityCudaEvent2*>(record)->cudaEventSyncId;
#endif
      batch.events.push_back({event_sync, event->correlationId, event->contextId, event->streamId, event->eventId});
      break;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
      const auto* overhead = reinterpret_cast<const CUpti_ActivityOverhead*>(record);
      const bool of_thread = overhead->objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
      batch.overhead.push_back({overhead->start, overhead->end, of_thread ? overhead->objectId.pt.threadId : 0,
                                static_cast<uint32_t>(overhead->overheadKind)});
      break;
    }
    case CUPTI_ACTIVITY_KIND_CONTEXT: {
      const auto* context = reinterpret_cast<const CUpti_ActivityContext*>(record);
      batch.contexts.push_back({context->contextId, context->deviceId, context->nullStreamId, 0});
      break;
    }
    case CUPTI_ACTIVITY_KIND_STREAM: {
      const auto* stream = reinterpret_cast<const CUpti_ActivityStream*>(record);
      batch.streams.push_back({stream->contextId, stream->streamId, static_cast<uint32_t>(stream->flag), 0});
      break;
    }
    default:
      break;
  }
}

}  // namespace

void append_records(const Cupti& cupti, Recording& into, uint8_t* buffer, size_t valid_size) {
  // One at a time, so that the batch keeps its memory from buffer to buffer.
  static std::mutex mutex;
  static auto& batch = *new Batch;  // never destroyed: CUPTI's thread may use it while the process ends
  const std::lock_guard<std::mutex> lock(mutex);
  CUpti_Activity* record = nullptr;
  while (valid_size > 0 && cupti.cuptiActivityGetNextRecord(buffer, valid_size, &record) == CUPTI_SUCCESS) {
    add(cupti, into, batch, record);
  }
  batch.hand_over(into);
}

}  // namespace fdprof
