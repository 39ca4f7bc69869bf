// What the native code asks of a paddle::Tensor: its memory, checked; and the words to refuse one with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paddle/phi/api/include/tensor.h"
#include "paddle/phi/core/allocator.h"

namespace fdprof {

// As in "int64 [4, 1] on gpu:0".
std::string describe(const paddle::Tensor& tensor);
std::string place_text(const paddle::Tensor& tensor);

// Throws Failure, naming `call`, for the first of: nothing in it, on the device, not bool, not one element.
[[noreturn]] void refuse_flag(const paddle::Tensor& tensor, const char* call);

// The flag of get_stop and set_stop: one bool in host memory, pinned or not.
inline volatile bool* host_flag(const paddle::Tensor& tensor, const char* call) {
  if (!tensor.initialized() || !(tensor.is_cpu() || tensor.is_gpu_pinned()) ||
      tensor.dtype() != phi::DataType::BOOL || tensor.numel() != 1) {
    refuse_flag(tensor, call);
  }
  return const_cast<bool*>(tensor.data<bool>());
}

// Bytes and address of a contiguous tensor; throws Failure otherwise.
struct Memory {
  void* address;
  int64_t size_bytes;
  bool is_on_device;
};
Memory memory_of(const paddle::Tensor& tensor, const char* what);

// The address of a tensor of exactly this dtype and shape where the kernels run; throws Failure otherwise.
void* require_kernel_tensor(const paddle::Tensor& tensor, const char* name, phi::DataType dtype,
                            const std::vector<int64_t>& shape);

// The allocation a tensor refers to; the tensor shares it with its views.
std::shared_ptr<phi::Allocation>& allocation_of(const paddle::Tensor& tensor);

phi::DataType dtype_named(const std::string& name);

}  // namespace fdprof
