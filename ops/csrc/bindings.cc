// The Python face.  Docstrings here are the reference of fdprof.ops.ops, which hands these functions out unwrapped.
#include "bindings.h"

#include <cmath>
#include <optional>

#include "clock_alignment.h"
#include "event.h"
#include "failure.h"
#include "host_memory.h"
#include "latch.h"
#include "paddle_tensor.h"
#include "stream.h"
#include "watchdog.h"

namespace fdprof {

int64_t checked_ns(double seconds, const char* name) {
  constexpr double kLongestS = 1e9;  // about 32 years: what still fits int64 ns with room to add
  if (!(seconds > 0) || seconds > kLongestS) {
    throw std::invalid_argument(std::string(name) + " must be above 0 and at most 1e9 s");
  }
  return std::llround(seconds * 1e9);
}

}  // namespace fdprof

namespace {

using fdprof::checked_ns;
using fdprof::StreamHandle;
using fdprof::timeout_ns;
using OptionalStream = std::optional<StreamHandle>;
using Unlocked = py::call_guard<py::gil_scoped_release>;

StreamHandle stream_or_current(const OptionalStream& stream) {
  return stream.has_value() ? *stream : fdprof::current_stream();
}

// Failure becomes fdprof.errors.ScenarioFailed, so that no Python frame stands around a hot call to map it.
void translate(std::exception_ptr pointer) {
  try {
    if (pointer) {
      std::rethrow_exception(pointer);
    }
  } catch (const fdprof::Failure& failure) {
    const py::object type = py::module_::import("fdprof.errors").attr("ScenarioFailed");
    const py::object hint = failure.hint().empty() ? py::object(py::none()) : py::object(py::str(failure.hint()));
    PyErr_SetObject(type.ptr(), type(failure.what(), hint).ptr());
  }
}

void bind_flags(py::module_& m) {
  m.def("get_stop", [](const paddle::Tensor& tensor) -> bool { return *fdprof::host_flag(tensor, "get_stop"); },
        py::arg("tensor"),
        "Return the bool in a one-element bool tensor in host memory, pinned or pageable.\n\n"
        "It waits for nothing: waiting for the copy into the tensor first is the caller's part.  After FastDeploy's\n"
        "get_stop (PR #6176), which returns a tensor; making a bool of that costs 9 us more.\n"
        "Raises ScenarioFailed for a tensor that is uninitialised, on the device, not bool or not of one element.");
  m.def("set_stop",
        [](const paddle::Tensor& tensor, bool value) { *fdprof::host_flag(tensor, "set_stop") = value; },
        py::arg("tensor"), py::arg("value"),
        "Write the bool of a one-element bool tensor in host memory; refuses what get_stop refuses.\n\n"
        "A copy from the device that is still in flight may overwrite the value: wait for it first.");
}

void bind_memory(py::module_& m) {
  m.def("pinned_tensor", &fdprof::pinned_tensor, py::arg("shape"), py::arg("dtype"), py::arg("mapped") = false,
        "Return a zeroed CPU-place tensor over page-locked memory (cudaHostAlloc; page-aligned memory without CUDA).\n\n"
        "Unlike Paddle's own pinned tensor it is not moved to the device by indexing (Paddle #78835).  The memory is\n"
        "freed by free_pinned(), or at a later pinned_tensor() once no tensor refers to it.  Allocating waits for the\n"
        "device: keep it out of what is measured.  A copy_ from a larger tensor replaces the memory by Paddle's.\n"
        "mapped=True makes it readable by kernels at device_pointer(tensor).\n"
        "Raises ValueError for an unknown dtype or an extent below 1, ScenarioFailed when CUDA refuses.");
  m.def("free_pinned", &fdprof::free_pinned, py::arg("tensor"),
        "Free the memory of a pinned_tensor() and leave the tensor uninitialised; no copy may be in flight.\n\n"
        "Raises ScenarioFailed for other memory, or when another tensor shares it.");
  m.def("pinned_count", &fdprof::pinned_count, "Return how many blocks pinned_tensor() holds.");
  m.def("device_pointer", &fdprof::device_pointer, py::arg("tensor"),
        "Return the device address of a pinned_tensor(mapped=True); raises ScenarioFailed for other memory.");
  m.def("memory_kind", &fdprof::memory_kind, py::arg("tensor"),
        "Return \"pageable\", \"pinned\" or \"device\": what the memory is, whatever place the tensor claims.\n\n"
        "Source: cudaPointerGetAttributes; always \"pageable\" without CUDA.");
  m.def("write_host",
        [](const paddle::Tensor& tensor, const py::buffer& array) {
          Py_buffer view;
          if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_SIMPLE) != 0) {
            throw py::error_already_set();
          }
          const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> held(&view, &PyBuffer_Release);
          fdprof::write_host(tensor, view.buf, view.len);
        },
        py::arg("tensor"), py::arg("array"),
        "Copy the bytes of a C-contiguous array to a tensor in host memory, pinned or pageable, of as many bytes.\n\n"
        "It waits for nothing: a copy from the tensor that is still in flight may read the new values.");
  m.def("poison", &fdprof::poison, py::arg("tensor"), py::arg("byte"),
        "Set every byte of a tensor in host memory, pinned or pageable.");
  m.def("copy_async",
        [](const paddle::Tensor& dst, const paddle::Tensor& src, const OptionalStream& stream) {
          fdprof::copy_async(dst, src, stream_or_current(stream));
        },
        py::arg("dst"), py::arg("src"), py::arg("stream") = py::none(),
        "Queue a copy of all bytes of src to dst on a stream (None: Paddle's current); needs equal sizes in bytes.\n\n"
        "Keeps no reference: the caller keeps both tensors alive until an event behind the copy is complete.  With\n"
        "pageable host memory CUDA returns only after the copy.  Without CUDA it is a plain copy.");
}

void bind_event_and_stream(py::module_& m) {
  using fdprof::Event;
  using fdprof::Stream;
  py::class_<Event>(m, "Event",
                    "A CUDA event that refuses to answer before it was recorded (CUDA would say \"complete\").\n\n"
                    "timing=True allows elapsed_ns and costs more a record (H200: 0.99 against 0.21 us).\n"
                    "wait=\"spin\" burns a core in the driver; \"blocking\" sleeps, and wakes 20 to 100 us later;\n"
                    "\"poll\" queries again and again; \"yield\" gives the core to others between queries.\n"
                    "Without CUDA an event is complete when recorded.")
      .def(py::init([](bool timing, const std::string& wait) {
             return std::make_unique<Event>(timing, fdprof::wait_style_named(wait, "Event"));
           }),
           py::arg("timing") = false, py::arg("wait") = "spin")
      .def("record", [](Event& event, const OptionalStream& stream) { event.record(stream_or_current(stream)); },
           py::arg("stream") = py::none(), "Record the event on a raw stream (None: Paddle's current stream).")
      .def("query", &Event::query, "Return whether the work before the record is done.")
      .def("wait", [](const Event& event, double timeout_s) { event.wait(timeout_ns(timeout_s)); },
           py::arg("timeout_s"), Unlocked(),
           "Block in the event's style until the work before the record is done, with the GIL released.\n\n"
           "After timeout_s the waiting kernels of fdprof are ended and ScenarioFailed is raised; if other work hangs\n"
           "the device for 10 s more, the process ends with exit code 4.")
      .def("elapsed_ns", &Event::elapsed_ns, py::arg("start"),
           "Return the ns from `start` to this event on the device (CUDA's resolution is about 500 ns).\n\n"
           "Raises ScenarioFailed, saying which, if either was made without timing, not recorded or is not complete.");
  py::class_<Stream>(m, "Stream", "A non-blocking stream of its own: unordered with every other stream.")
      .def(py::init<>())
      .def_property_readonly("handle", &Stream::handle, "The raw cudaStream_t as an int; 0 without CUDA.")
      .def("wait_event", &Stream::wait_event, py::arg("event"),
           "Make later work of this stream wait for a recorded event; the host does not wait.")
      .def("query", &Stream::query, "Return whether all queued work is done.")
      .def("synchronize", [](const Stream& stream, double timeout_s) { stream.synchronize(timeout_ns(timeout_s)); },
           py::arg("timeout_s"), Unlocked(), "Block until all queued work is done; the timeout is as in Event.wait.");
  m.def("stream_wait",
        [](const Event& event, const Stream* stream) {
          fdprof::stream_wait(stream == nullptr ? fdprof::current_stream() : stream->handle(), event);
        },
        py::arg("event"), py::arg("stream") = py::none(),
        "Make later work of a Stream (None: Paddle's current) wait for a recorded event; the host does not wait.");
  m.def("current_stream", &fdprof::current_stream,
        "Return the raw handle of Paddle's current compute stream as an int; 0 without CUDA.");
  m.def("synchronize_current",
        [](double timeout_s) { fdprof::synchronize_stream(fdprof::current_stream(), timeout_ns(timeout_s)); },
        py::arg("timeout_s"), Unlocked(),
        "Block in cudaStreamSynchronize on Paddle's current stream; the timeout is as in Event.wait.");
}

void bind_watch(py::module_& m) {
  m.def("watch_begin", [](double timeout_s) { fdprof::watch_begin(timeout_ns(timeout_s)); }, py::arg("timeout_s"),
        "Bound the blocking calls that follow in this thread, such as Paddle's .cpu(), until watch_end().\n\n"
        "At the deadline the waiting kernels of fdprof are ended, so that the call returns; 10 s later, if it has\n"
        "not, the process ends with exit code 4.  Watches nest.");
  m.def("watch_end",
        [](bool quiet) {
          const bool fired = fdprof::watch_end();
          if (fired && !quiet) {
            throw fdprof::Failure("a watched call did not end within its timeout",
                                  "the queued kernels were told to end; look for a latch that is never released, or "
                                  "raise the timeout");
          }
          return fired;
        },
        py::arg("quiet") = false,
        "End the innermost watch of this thread; raises ScenarioFailed if its deadline passed.\n\n"
        "quiet=True returns whether it passed instead, for use while another error is on its way.");
  m.def("watch_fired", &fdprof::watch_fired, "Return whether the innermost watch of this thread has passed its deadline.");
  m.def("set_watch_grace", [](double grace_s) { fdprof::set_watch_grace(checked_ns(grace_s, "grace_s")); },
        py::arg("grace_s"),
        "Set how long after a passed deadline a call may still block before the process ends (10 s at first).");
}

void bind_device_work(py::module_& m) {
  using fdprof::Latch;
  py::class_<Latch>(m, "Latch",
                    "A kernel that blocks its stream until release(), or for timeout_s at most.\n\n"
                    "Proves which host calls wait for the device: whatever returns before release() did not.")
      .def(py::init([](double timeout_s) { return std::make_unique<Latch>(timeout_ns(timeout_s)); }),
           py::arg("timeout_s"))
      .def("launch", [](Latch& latch, const OptionalStream& stream) { latch.launch(stream_or_current(stream)); },
           py::arg("stream") = py::none(),
           "Queue the latch on a raw stream (None: Paddle's current), once.  Raises ScenarioFailed without CUDA.")
      .def("release", &Latch::release, "Let the stream go on; may come before or after launch.")
      .def_property_readonly("timed_out", &Latch::timed_out,
                             "Whether the kernel ended without release(): by its own timeout or by a passed watch.");
  m.def("align_clocks",
        [](int64_t rounds, double timeout_s) {
          if (rounds < 1) {
            throw std::invalid_argument("align_clocks: rounds must be at least 1");
          }
          fdprof::ClockPair pair;
          {
            const py::gil_scoped_release unlocked;
            pair = fdprof::align_clocks(rounds, timeout_ns(timeout_s));
          }
          return py::make_tuple(pair.host_ns, pair.device_ns, pair.error_ns);
        },
        py::arg("rounds") = 64, py::arg("timeout_s") = 5.0,
        "Return (host_ns, device_ns, error_ns): CLOCK_MONOTONIC and %globaltimer at one instant, within error_ns.\n\n"
        "The host and one kernel exchange numbers through mapped memory; the round with the shortest trip counts, at\n"
        "its midpoint, and the error is half that trip plus one device tick of 32 ns.  The clocks drift apart by some\n"
        "us a second: align before and after what is measured.  Without CUDA both are the host clock, error 0.");
  m.def("device_info",
        [] {
          const fdprof::DeviceInfo info = fdprof::device_info();
          py::dict values;
          if (info.present) {
            values["name"] = info.name;
            values["compute_capability"] = info.compute_capability;
            values["driver_version"] = info.driver_version;
            values["runtime_version"] = info.runtime_version;
            values["pci_bus_id"] = info.pci_bus_id;
            values["sm_count"] = info.sm_count;
          }
          return values;
        },
        "Return name, compute_capability (\"9.0\"), driver_version and runtime_version (CUDA's, \"13.0\"), pci_bus_id\n"
        "(\"0000:3B:00.0\") and sm_count of Paddle's current device; {} without CUDA.");
}

}  // namespace

PYBIND11_MODULE(fdprof_ops, m) {
  m.doc() = "The native ops of fdprof; see fdprof.ops.ops.";
  py::register_local_exception_translator(&translate);
#ifdef PADDLE_WITH_CUDA
  m.attr("built_for_cuda") = true;
#else
  m.attr("built_for_cuda") = false;
#endif
  bind_flags(m);
  bind_memory(m);
  bind_event_and_stream(m);
  bind_watch(m);
  bind_device_work(m);
  fdprof::bind_decode_loop(m);
}
