#include "device.h"

#include "cuda_check.h"

#ifdef PADDLE_WITH_CUDA
#include "paddle/extension.h"

// Declared here, because gpu_info.h needs cuBLAS's and cuDNN's headers, which a toolkit need not have.
namespace phi::backends::gpu {
int GetCurrentDeviceId();
}
#endif

namespace fdprof {

#ifdef PADDLE_WITH_CUDA

int use_device() {
  // Paddle's wheel carries its own CUDA runtime, so that runtime's current device must be set in ours as well.
  thread_local int device = -1;
  if (device < 0) {
    int count = 0;
    FDPROF_CUDA(cudaGetDeviceCount(&count));
    const int current = phi::backends::gpu::GetCurrentDeviceId();
    FDPROF_CUDA(cudaSetDevice(current));
    device = current;
  }
  return device;
}

StreamHandle current_stream() {
  // Asked of a tensor, because what asks the context directly needs those headers too.  Tensor::stream() ignores the
  // tensor and returns the current device's current stream, so an empty one will do.
  static const auto* const anyone = new paddle::Tensor;
  use_device();
  return reinterpret_cast<StreamHandle>(anyone->stream());
}

static std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DeviceInfo device_info() {
  const int device = use_device();
  cudaDeviceProp properties;
  int driver = 0;
  int runtime = 0;
  char bus_id[32] = "";
  FDPROF_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
  FDPROF_CUDA(cudaGetDeviceProperties(&properties, device));
  FDPROF_CUDA(cudaDriverGetVersion(&driver));
  FDPROF_CUDA(cudaRuntimeGetVersion(&runtime));
  DeviceInfo info;
  info.present = true;
  info.name = properties.name;
  info.compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  info.driver_version = version_text(driver);
  info.runtime_version = version_text(runtime);
  info.pci_bus_id = bus_id;
  info.sm_count = properties.multiProcessorCount;
  return info;
}

#else

int use_device() { return -1; }

StreamHandle current_stream() { return 0; }

DeviceInfo device_info() { return {}; }

#endif

}  // namespace fdprof
