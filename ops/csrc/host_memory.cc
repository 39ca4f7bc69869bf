#include "host_memory.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>

#include "cuda_check.h"
#include "device.h"
#include "failure.h"
#include "paddle/phi/api/include/tensor_utils.h"
#include "paddle_tensor.h"

namespace fdprof {
namespace {

struct Block {
  // Shared with the tensor and its views: when only this one is left, no tensor can reach the memory.
  std::shared_ptr<phi::Allocation> allocation;
  bool is_mapped;
};

// Never destroyed: tensors may live on until the interpreter ends, and the system takes the memory back then.
struct Registry {
  std::mutex mutex;
  std::map<const void*, Block> blocks;
};

Registry& registry() {
  static Registry* const only = new Registry;
  return *only;
}

#ifdef PADDLE_WITH_CUDA

void* allocate(size_t size_bytes, bool mapped) {
  use_device();
  void* address = nullptr;
  FDPROF_CUDA(cudaHostAlloc(&address, size_bytes, cudaHostAllocPortable | (mapped ? cudaHostAllocMapped : 0u)));
  return address;
}

void release(const void* address) { FDPROF_CUDA(cudaFreeHost(const_cast<void*>(address))); }

#else

constexpr size_t kPageBytes = 4096;

void* allocate(size_t size_bytes, bool) {
  void* address = nullptr;
  if (posix_memalign(&address, kPageBytes, size_bytes) != 0) {
    throw std::bad_alloc();
  }
  return address;
}

void release(const void* address) { std::free(const_cast<void*>(address)); }

#endif

void free_dead_blocks(Registry* held) {
  for (auto block = held->blocks.begin(); block != held->blocks.end();) {
    if (block->second.allocation.use_count() == 1) {
      const void* address = block->first;
      block = held->blocks.erase(block);
      release(address);
    } else {
      ++block;
    }
  }
}

int64_t checked_size_bytes(const std::vector<int64_t>& shape, phi::DataType dtype) {
  int64_t size_bytes = static_cast<int64_t>(phi::SizeOf(dtype));
  for (const int64_t extent : shape) {
    if (extent < 1 || size_bytes > std::numeric_limits<int64_t>::max() / extent) {
      throw std::invalid_argument("pinned_tensor: every extent of the shape must be at least 1, and the size fit int64");
    }
    size_bytes *= extent;
  }
  return size_bytes;
}

}  // namespace

static Memory host_memory_of(const paddle::Tensor& tensor, const char* call) {
  const Memory memory = memory_of(tensor, call);
  if (memory.is_on_device) {
    throw Failure(std::string(call) + ": " + describe(tensor) + " is not in host memory");
  }
  return memory;
}

void write_host(const paddle::Tensor& tensor, const void* values, int64_t size_bytes) {
  const Memory memory = host_memory_of(tensor, "write_host: the tensor");
  if (memory.size_bytes != size_bytes) {
    throw Failure("write_host: the array has " + std::to_string(size_bytes) + " bytes and the tensor " +
                  std::to_string(memory.size_bytes) + " (" + describe(tensor) + ")");
  }
  std::memcpy(memory.address, values, static_cast<size_t>(size_bytes));
}

void poison(const paddle::Tensor& tensor, uint8_t byte) {
  const Memory memory = host_memory_of(tensor, "poison: the tensor");
  std::memset(memory.address, byte, static_cast<size_t>(memory.size_bytes));
}

paddle::Tensor pinned_tensor(const std::vector<int64_t>& shape, const std::string& dtype, bool mapped) {
  const phi::DataType type = dtype_named(dtype);
  const auto size_bytes = static_cast<size_t>(checked_size_bytes(shape, type));
  Registry& held = registry();
  const std::lock_guard<std::mutex> lock(held.mutex);
  free_dead_blocks(&held);
  void* address = allocate(size_bytes, mapped);
  std::memset(address, 0, size_bytes);
  paddle::Tensor tensor = paddle::from_blob(address, shape, type, phi::DataLayout::NCHW, phi::CPUPlace());
  held.blocks[address] = Block{allocation_of(tensor), mapped};
  return tensor;
}

void free_pinned(const paddle::Tensor& tensor) {
  const Memory memory = memory_of(tensor, "free_pinned: the tensor");
  Registry& held = registry();
  const std::lock_guard<std::mutex> lock(held.mutex);
  const auto block = held.blocks.find(memory.address);
  if (block == held.blocks.end()) {
    throw Failure("free_pinned: the memory of " + describe(tensor) + " is not from pinned_tensor()");
  }
  constexpr long kRegistryAndTensor = 2;
  if (block->second.allocation.use_count() > kRegistryAndTensor) {
    throw Failure("free_pinned: another tensor still refers to the memory of " + describe(tensor),
                  "drop views and copies of the reference first");
  }
  allocation_of(tensor).reset();
  held.blocks.erase(block);
  release(memory.address);
}

int64_t pinned_count() {
  Registry& held = registry();
  const std::lock_guard<std::mutex> lock(held.mutex);
  return static_cast<int64_t>(held.blocks.size());
}

std::uintptr_t device_pointer(const paddle::Tensor& tensor) {
  const Memory memory = memory_of(tensor, "device_pointer: the tensor");
#ifdef PADDLE_WITH_CUDA
  {
    Registry& held = registry();
    const std::lock_guard<std::mutex> lock(held.mutex);
    const auto block = held.blocks.find(memory.address);
    if (block == held.blocks.end() || !block->second.is_mapped) {
      throw Failure("device_pointer: the memory of " + describe(tensor) + " is not mapped",
                    "make it with pinned_tensor(shape, dtype, mapped=True)");
    }
  }
  void* address = nullptr;
  FDPROF_CUDA(cudaHostGetDevicePointer(&address, memory.address, 0));
  return reinterpret_cast<std::uintptr_t>(address);
#else
  static_cast<void>(memory);
  throw Failure("device_pointer: the ops are built for the CPU, so there is no device to have an address");
#endif
}

std::string memory_kind(const paddle::Tensor& tensor) {
  const Memory memory = memory_of(tensor, "memory_kind: the tensor");
#ifdef PADDLE_WITH_CUDA
  use_device();
  cudaPointerAttributes attributes;
  FDPROF_CUDA(cudaPointerGetAttributes(&attributes, memory.address));
  switch (attributes.type) {
    case cudaMemoryTypeHost:
      return "pinned";
    case cudaMemoryTypeDevice:
    case cudaMemoryTypeManaged:
      return "device";
    default:
      return "pageable";
  }
#else
  static_cast<void>(memory);
  return "pageable";
#endif
}

void copy_async(const paddle::Tensor& target, const paddle::Tensor& source, std::uintptr_t stream) {
  const Memory to = memory_of(target, "copy_async: dst");
  const Memory from = memory_of(source, "copy_async: src");
  if (to.size_bytes != from.size_bytes) {
    throw Failure("copy_async: src has " + std::to_string(from.size_bytes) + " bytes (" + describe(source) +
                  ") and dst " + std::to_string(to.size_bytes) + " (" + describe(target) + ")");
  }
  const auto size_bytes = static_cast<size_t>(to.size_bytes);
#ifdef PADDLE_WITH_CUDA
  const cudaMemcpyKind kind = to.is_on_device
                                  ? (from.is_on_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                                  : (from.is_on_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  FDPROF_CUDA(cudaMemcpyAsync(to.address, from.address, size_bytes, kind, reinterpret_cast<cudaStream_t>(stream)));
#else
  static_cast<void>(stream);
  std::memmove(to.address, from.address, size_bytes);
#endif
}

}  // namespace fdprof
