// Calls NVTX in the ways that Python cannot, for test_collector_library.py: the first argument names the way.
#include <nvtx3/nvToolsExt.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

nvtxEventAttributes_t named(const char* name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  return event;
}

void one(const nvtxEventAttributes_t& event) {
  nvtxRangePushEx(&event);
  nvtxRangePop();
}

void payloads() {
  auto event = named("uint64");
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = 9000000000000000000ull;
  one(event);
  event = named("int64");
  event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  event.payload.llValue = 5000000000ll;
  one(event);
  event = named("uint32");
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
  event.payload.uiValue = 4000000000u;
  one(event);
  event = named("int32");
  event.payload.ullValue = ~0ull;  // what lies beside the 32 bits is not the value
  event.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  event.payload.iValue = 7;
  one(event);
  event = named("float");
  event.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
  event.payload.fValue = 1.5f;
  one(event);
  event = named("double");
  event.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  event.payload.dValue = 1.5;
  one(event);
  one(named("none"));
}

void names() {
  nvtxRangePushA("ascii");
  nvtxRangePop();
  nvtxRangePushW(L"wide \u00e9");
  nvtxRangePop();
  auto event = named(nullptr);
  one(event);
  event.messageType = NVTX_MESSAGE_UNKNOWN;
  one(event);
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("engine");
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
  const nvtxDomainHandle_t wide = nvtxDomainCreateW(L"wide engine");
  event.message.registered = nvtxDomainRegisterStringW(wide, L"wide registered");
  nvtxDomainRangePushEx(wide, &event);
  nvtxDomainRangePop(wide);
}

// a( engine:b( a) engine:b), which cross; then a pop that nothing was pushed for.
void crossing() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("engine");
  const auto event = named("b");
  nvtxRangePushA("a");
  nvtxDomainRangePushEx(domain, &event);
  nvtxRangePop();
  nvtxDomainRangePop(domain);
  nvtxRangePop();
  nvtxDomainRangePop(domain);
  nvtxRangeEnd(12345);
}

void started() {
  const nvtxRangeId_t here = nvtxRangeStartA("ends in another thread");
  const nvtxRangeId_t crossing = nvtxRangeStartA("crosses it");
  std::thread([here] {
    std::printf("%d\n", static_cast<int>(gettid()));
    nvtxRangeEnd(here);
  }).join();
  nvtxRangeEnd(crossing);
}

void left_open() {
  nvtxRangePushA("whole");
  nvtxRangePop();
  nvtxRangePushA("never popped");
  nvtxRangeStartA("never ended");
}

void push_many(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA("busy");
    nvtxRangePop();
  }
}

// Forks while other threads hold every lock of the collector now and then; a child that hangs is never waited for.
int forks(int children) {
  push_many(1);  // NVTX's own start must be over: a child would wait for ever for the thread that was in it
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&enough, i] {
      for (int n = 0; !enough; ++n) {
        nvtxRangePushA(("busy " + std::to_string(i) + " " + std::to_string(n % 5000)).c_str());
        nvtxRangePop();
        nvtxRangeEnd(nvtxRangeStartA("busy"));
      }
    });
  }
  for (int child = 0; child < children; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      nvtxRangePushA("in the child");
      nvtxRangePop();
      push_many(300);
      std::exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) {
      return 1;
    }
  }
  enough = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  return 0;
}

// Writes until the limit of the file's size, then further; the limit is no multiple of a row's 40 bytes.
void full() {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit before{RLIM_INFINITY, RLIM_INFINITY};
  const rlimit little{100001, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &little);
  push_many(10000);
  setrlimit(RLIMIT_FSIZE, &before);
  push_many(1000);
}

}  // namespace

int main(int, char** arguments) {
  const std::string way = arguments[1];
  if (way == "payloads") {
    payloads();
  } else if (way == "names") {
    names();
  } else if (way == "crossing") {
    crossing();
  } else if (way == "started") {
    started();
  } else if (way == "left open") {
    left_open();
  } else if (way == "full") {
    full();
  } else if (way == "forks") {
    return forks(std::atoi(arguments[2]));
  } else {
    return 2;
  }
  return 0;
}
