#include "ranges.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cwchar>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "clock.h"
#include "collector.h"
#include "names.h"

namespace fdprof {

namespace {

constexpr size_t HELD_ROWS = 256;
constexpr uint32_t DEFAULT_DOMAIN = 0;

struct Open {
  uint64_t start_ns;
  int64_t payload;
  uint32_t thread;  // that began it
  uint32_t name;
  uint32_t domain;
  bool watched;
};

struct Thread {
  std::mutex mutex;  // taken by this thread for each range, and by whoever flushes
  std::vector<Open> open;
  std::vector<RangeRow> held;
};

struct State {
  std::mutex mutex;
  std::shared_ptr<Recording> into;
  std::vector<Thread*> threads;  // never freed: a thread's rows may be flushed after it has ended
  std::unordered_map<uint64_t, Open> started;  // start/end ranges, which threads share
};

// Another one in a process that was forked: a lock of the parent's may be held there by a thread that is not here.
std::atomic<State*> all_state{nullptr};

State& state() {
  State* all = all_state.load(std::memory_order_acquire);
  if (all == nullptr) {
    auto* mine = new State;
    if (all_state.compare_exchange_strong(all, mine)) {
      return *mine;
    }
    delete mine;
  }
  return *all;
}

std::atomic<bool> records{false};
std::atomic<bool> hears_markers{false};
std::atomic<uint64_t> since_ns{0};
std::atomic<uint64_t> next_id{1};
std::atomic<uint32_t> watched_name{0};
std::atomic<uint32_t> watched_domain{0};
std::atomic<bool> any_domain{true};
bool (*watcher)(bool) = nullptr;
thread_local Thread* thread = nullptr;

Thread& mine() {
  if (thread == nullptr) {
    thread = new Thread;
    const std::lock_guard<std::mutex> lock(state().mutex);
    state().threads.push_back(thread);
  }
  return *thread;
}

void write_name(Recording& into, uint32_t number) {
  if (!into.knows_name(number)) {
    into.name(number, text_of(number));
  }
}

void hand_over(Recording& into, std::vector<RangeRow>& rows) {
  for (const RangeRow& row : rows) {
    write_name(into, row.name);
    if (row.domain != DEFAULT_DOMAIN) {
      write_name(into, row.domain);
    }
  }
  into.append(RANGE, rows.data(), rows.size());
  rows.clear();
}

// The caller holds the thread's mutex.
void keep(Thread& thread, const Open& open, uint64_t end_ns) {
  // A range that began before the recording is no whole one.
  if (!records || open.start_ns < since_ns) {
    return;
  }
  thread.held.push_back({open.start_ns, end_ns, open.payload, open.thread, open.name, open.domain, 0});
  if (thread.held.size() >= HELD_ROWS) {
    std::shared_ptr<Recording> into;
    {
      const std::lock_guard<std::mutex> lock(state().mutex);
      into = state().into;
    }
    if (into != nullptr) {
      hand_over(*into, thread.held);
    }
    thread.held.clear();
  }
}

bool is_watched(uint32_t name, uint32_t domain) {
  return name == watched_name.load(std::memory_order_relaxed) && name != 0 && (any_domain || domain == watched_domain);
}

int push(uint32_t domain, uint32_t name, int64_t payload) {
  Thread& thread = mine();
  const bool watched = is_watched(name, domain) && watcher(true);  // before the lock: it begins a recording
  const std::lock_guard<std::mutex> lock(thread.mutex);
  thread.open.push_back({now_ns(), payload, thread_id(), name, domain, watched});
  return static_cast<int>(thread.open.size()) - 1;
}

int pop(uint32_t domain) {
  Thread& thread = mine();
  const uint64_t end_ns = now_ns();
  bool watched = false;
  int depth = -1;
  {
    const std::lock_guard<std::mutex> lock(thread.mutex);
    // Each domain nests by itself: the innermost of this one ends.
    for (size_t at = thread.open.size(); at-- > 0;) {
      if (thread.open[at].domain == domain) {
        watched = thread.open[at].watched;
        keep(thread, thread.open[at], end_ns);
        thread.open.erase(thread.open.begin() + static_cast<std::ptrdiff_t>(at));
        depth = static_cast<int>(at);
        break;
      }
    }
  }
  if (watched) {
    watcher(false);
  }
  return depth;
}

uint64_t start(uint32_t domain, uint32_t name, int64_t payload) {
  const bool watched = is_watched(name, domain) && watcher(true);
  const uint64_t id = next_id++;
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().started.emplace(id, Open{now_ns(), payload, thread_id(), name, domain, watched});
  return id;
}

void end(uint64_t id) {
  const uint64_t end_ns = now_ns();
  Open open{};
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    const auto found = state().started.find(id);
    if (found == state().started.end()) {
      return;
    }
    open = found->second;
    state().started.erase(found);
  }
  {
    Thread& thread = mine();
    const std::lock_guard<std::mutex> lock(thread.mutex);
    keep(thread, open, end_ns);
  }
  if (open.watched) {
    watcher(false);
  }
}

// Wide texts are rare (Windows' habit): characters beyond ASCII become '?'.
std::string narrow(const wchar_t* text) {
  std::string result;
  for (; text != nullptr && *text != 0; ++text) {
    result += *text < 0x80 ? static_cast<char>(*text) : '?';
  }
  return result;
}

uint32_t markers_domain() {
  static const uint32_t number = number_of("fdprof");
  return number;
}

uint32_t number_of_text(const char* text) { return number_of(text == nullptr ? std::string_view() : text); }

uint32_t name_in(const nvtxEventAttributes_t* event) {
  if (event == nullptr) {
    return number_of("");
  }
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return number_of_text(event->message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
      return number_of(narrow(event->message.unicode));
    case NVTX_MESSAGE_TYPE_REGISTERED:  // the handle is the number that was given for it
      return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(event->message.registered));
    default:
      return number_of("");
  }
}

int64_t payload_in(const nvtxEventAttributes_t* event) {
  if (event == nullptr) {
    return -1;
  }
  switch (event->payloadType) {
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
    case NVTX_PAYLOAD_TYPE_INT64:
      return event->payload.llValue;
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
      return event->payload.uiValue;
    case NVTX_PAYLOAD_TYPE_INT32:
      return event->payload.iValue;
    default:
      return -1;
  }
}

uint32_t number_in(nvtxDomainHandle_t domain) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(domain)); }

template <typename Handle>
Handle handle_of(uint32_t number) {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(number));
}

// What NVTX calls, by its name with "Domain" where it has one.
int NVTX_API push_ex(const nvtxEventAttributes_t* event) {
  collector_awake();
  return push(DEFAULT_DOMAIN, name_in(event), payload_in(event));
}
int NVTX_API push_a(const char* text) {
  collector_awake();
  return push(DEFAULT_DOMAIN, number_of_text(text), -1);
}
int NVTX_API push_w(const wchar_t* text) {
  collector_awake();
  return push(DEFAULT_DOMAIN, number_of(narrow(text)), -1);
}
int NVTX_API pop_default() { return pop(DEFAULT_DOMAIN); }
nvtxRangeId_t NVTX_API start_ex(const nvtxEventAttributes_t* event) {
  collector_awake();
  return start(DEFAULT_DOMAIN, name_in(event), payload_in(event));
}
nvtxRangeId_t NVTX_API start_a(const char* text) {
  collector_awake();
  return start(DEFAULT_DOMAIN, number_of_text(text), -1);
}
nvtxRangeId_t NVTX_API start_w(const wchar_t* text) {
  collector_awake();
  return start(DEFAULT_DOMAIN, number_of(narrow(text)), -1);
}
void NVTX_API end_default(nvtxRangeId_t id) { end(id); }
int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  collector_awake();
  return push(number_in(domain), name_in(event), payload_in(event));
}
int NVTX_API domain_pop(nvtxDomainHandle_t domain) { return pop(number_in(domain)); }
nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  collector_awake();
  return start(number_in(domain), name_in(event), payload_in(event));
}
void NVTX_API domain_end(nvtxDomainHandle_t, nvtxRangeId_t id) { end(id); }
nvtxStringHandle_t NVTX_API register_a(nvtxDomainHandle_t, const char* text) {
  return handle_of<nvtxStringHandle_t>(number_of_text(text));
}
nvtxStringHandle_t NVTX_API register_w(nvtxDomainHandle_t, const wchar_t* text) {
  return handle_of<nvtxStringHandle_t>(number_of(narrow(text)));
}
nvtxDomainHandle_t domain_of(uint32_t name) {
  if (name == markers_domain()) {
    hears_markers = true;
  }
  return handle_of<nvtxDomainHandle_t>(name);
}
nvtxDomainHandle_t NVTX_API domain_a(const char* text) { return domain_of(number_of_text(text)); }
nvtxDomainHandle_t NVTX_API domain_w(const wchar_t* text) { return domain_of(number_of(narrow(text))); }

template <typename Function>
void set(NvtxFunctionTable table, unsigned int size, unsigned int id, Function function) {
  if (id < size && table[id] != nullptr) {
    *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  }
}

}  // namespace

void ranges_to(std::shared_ptr<Recording> into) {
  const bool on = into != nullptr;
  if (on) {
    since_ns = into->start_ns();
  } else {
    records = false;  // first: what a thread added after the flush would get into the next recording
    ranges_flush();
  }
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    state().into = std::move(into);
  }
  records = on;
}

void ranges_flush() {
  std::shared_ptr<Recording> into;
  std::vector<Thread*> threads;
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    into = state().into;
    threads = state().threads;
  }
  if (into == nullptr) {
    return;
  }
  for (Thread* thread : threads) {
    const std::lock_guard<std::mutex> lock(thread->mutex);
    hand_over(*into, thread->held);
  }
}

void watch_range(const std::string& name, const std::string& domain, bool (*at)(bool starts)) {
  watcher = at;
  any_domain = domain == "*";
  watched_domain = domain.empty() || any_domain ? DEFAULT_DOMAIN : number_of(domain);
  watched_name = number_of(name);
}

void range_push(uint32_t name, int64_t payload) { push(markers_domain(), name, payload); }

void range_pop() { pop(markers_domain()); }

bool ranges_hear_markers() { return hears_markers; }

void ranges_after_fork() {
  known_thread_id = 0;
  all_state = new State;
  thread = nullptr;
  records = false;
}

}  // namespace fdprof

// NVTX calls this once for each library that carries it, when that library first uses it; 1: the tool is there.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  using namespace fdprof;
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) {
    return 0;
  }
  set(table, size, NVTX_CBID_CORE_RangePushEx, &push_ex);
  set(table, size, NVTX_CBID_CORE_RangePushA, &push_a);
  set(table, size, NVTX_CBID_CORE_RangePushW, &push_w);
  set(table, size, NVTX_CBID_CORE_RangePop, &pop_default);
  set(table, size, NVTX_CBID_CORE_RangeStartEx, &start_ex);
  set(table, size, NVTX_CBID_CORE_RangeStartA, &start_a);
  set(table, size, NVTX_CBID_CORE_RangeStartW, &start_w);
  set(table, size, NVTX_CBID_CORE_RangeEnd, &end_default);
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) != 0) {
    set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, &domain_push);
    set(table, size, NVTX_CBID_CORE2_DomainRangePop, &domain_pop);
    set(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, &domain_start);
    set(table, size, NVTX_CBID_CORE2_DomainRangeEnd, &domain_end);
    set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, &register_a);
    set(table, size, NVTX_CBID_CORE2_DomainRegisterStringW, &register_w);
    set(table, size, NVTX_CBID_CORE2_DomainCreateA, &domain_a);
    set(table, size, NVTX_CBID_CORE2_DomainCreateW, &domain_w);
  }
  collector_on_nvtx();
  return 1;
}
