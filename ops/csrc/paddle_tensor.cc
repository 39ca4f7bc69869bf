// This file calls no CUDA.  With the define, Paddle's headers would need those of cuBLAS and cuDNN, which a toolkit need
// not have; the classes used here have the same layout without it.
#undef PADDLE_WITH_CUDA

#include "paddle_tensor.h"

// The 2.6 wheels ship dense_tensor.h without the file it includes at its end, which only adds member functions.
#if !defined(PADDLE_WITH_CUSTOM_KERNEL) && !__has_include("paddle/phi/core/dense_tensor.inl")
#define PADDLE_WITH_CUSTOM_KERNEL
#endif
#include "paddle/phi/core/dense_tensor.h"

#include <array>
#include <utility>

#include "device.h"
#include "failure.h"

namespace fdprof {
namespace {

// Holder() is missing from the 2.6 headers (above); a derived class may name the protected member itself.
struct Opened : phi::DenseTensor {
  static std::shared_ptr<phi::Allocation>& holder(phi::DenseTensor& tensor) { return tensor.*(&Opened::holder_); }
};

phi::DenseTensor& dense(const paddle::Tensor& tensor) {
  if (!tensor.is_dense_tensor()) {
    throw Failure("the tensor is not dense: " + describe(tensor));
  }
  return *static_cast<phi::DenseTensor*>(tensor.impl().get());
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

using NamedDtype = std::pair<const char*, phi::DataType>;

const std::array<NamedDtype, 10> kDtypes{{{"bool", phi::DataType::BOOL},
                                          {"int8", phi::DataType::INT8},
                                          {"uint8", phi::DataType::UINT8},
                                          {"int16", phi::DataType::INT16},
                                          {"int32", phi::DataType::INT32},
                                          {"int64", phi::DataType::INT64},
                                          {"float16", phi::DataType::FLOAT16},
                                          {"bfloat16", phi::DataType::BFLOAT16},
                                          {"float32", phi::DataType::FLOAT32},
                                          {"float64", phi::DataType::FLOAT64}}};

std::string dtype_text(phi::DataType dtype) {
  for (const NamedDtype& named : kDtypes) {
    if (named.second == dtype) {
      return named.first;
    }
  }
  return phi::DataTypeToString(dtype);
}

}  // namespace

std::string place_text(const paddle::Tensor& tensor) {
  if (tensor.is_gpu_pinned()) {
    return "gpu_pinned";
  }
  if (tensor.is_gpu()) {
    return "gpu:" + std::to_string(static_cast<int>(tensor.place().GetDeviceId()));
  }
  return tensor.is_cpu() ? "cpu" : tensor.place().DebugString();
}

std::string describe(const paddle::Tensor& tensor) {
  if (!tensor.initialized()) {
    return "a tensor without memory";
  }
  return dtype_text(tensor.dtype()) + " " + shape_text(tensor.shape()) + " on " + place_text(tensor);
}

void refuse_flag(const paddle::Tensor& tensor, const char* call) {
  const std::string subject(call);
  if (!tensor.initialized()) {
    throw Failure(subject + ": the tensor has no memory: it is uninitialised or was freed");
  }
  if (!tensor.is_cpu() && !tensor.is_gpu_pinned()) {
    throw Failure(subject + ": the tensor is on " + place_text(tensor) +
                      ", not in host memory; was it indexed in Python? Paddle moves a pinned tensor to the device "
                      "for good (Paddle #78835)",
                  "read a pinned tensor only by copy_, numpy() and item(), or use pinned_tensor(), which never moves");
  }
  throw Failure(subject + ": expected a bool tensor of one element, got " + describe(tensor));
}

Memory memory_of(const paddle::Tensor& tensor, const char* what) {
  if (!tensor.initialized()) {
    throw Failure(std::string(what) + " has no memory: it is uninitialised or was freed");
  }
  const phi::DenseTensor& data = dense(tensor);
  if (!data.meta().is_contiguous()) {
    throw Failure(std::string(what) + " is not contiguous: " + describe(tensor), "copy it with contiguous() first");
  }
  return {const_cast<void*>(data.data()), tensor.numel() * static_cast<int64_t>(phi::SizeOf(tensor.dtype())),
          tensor.is_gpu()};
}

void* require_kernel_tensor(const paddle::Tensor& tensor, const char* name, phi::DataType dtype,
                            const std::vector<int64_t>& shape) {
  const int device = use_device();
  const bool is_there =
      tensor.initialized() &&
      (device < 0 ? tensor.is_cpu() : tensor.is_gpu() && tensor.place().GetDeviceId() == device);
  if (!is_there || tensor.dtype() != dtype || tensor.shape() != shape) {
    throw Failure("DecodeLoop: `" + std::string(name) + "` is " + describe(tensor) + ", expected " +
                  dtype_text(dtype) + " " + shape_text(shape) + " on " +
                  (device < 0 ? "cpu" : "gpu:" + std::to_string(device)));
  }
  return memory_of(tensor, name).address;
}

std::shared_ptr<phi::Allocation>& allocation_of(const paddle::Tensor& tensor) { return Opened::holder(dense(tensor)); }

phi::DataType dtype_named(const std::string& name) {
  std::string known;
  for (const NamedDtype& named : kDtypes) {
    if (name == named.first) {
      return named.second;
    }
    known += (known.empty() ? "" : ", ") + std::string(named.first);
  }
  throw std::invalid_argument("unknown dtype '" + name + "'; known: " + known);
}

}  // namespace fdprof
