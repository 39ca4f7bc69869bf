# ruff: noqa: SIM300 - the expected value stands first
"""How recorded call stacks become the places that waits and copies are called from."""

from fdprof.call_stacks import CallStack, Diagnosis, Frame, callers, origins_of

CUDA = (Frame("0x7f11", "/usr/lib/libcuda.so.580.1"), Frame("cudaStreamSynchronize", "/cuda/lib64/libcudart.so.13"))
MAIN = (
    Frame("main", "/app/engine"),
    Frame("__libc_start_call_main", "/lib/libc.so.6"),
    Frame("_start", "/app/engine"),
)
INTERPRETER = (
    Frame("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.12.so.1.0"),
    Frame("cfunction_call", "python3.12"),
)
PYTHON = (Frame("get_output", "/app/worker.py", 42), Frame("<module>", "/app/serve.py", 7))


def a_stack(*native, call="cudaStreamSynchronize_v3020", count=1, python=()):
    return CallStack(call, count, native, python)


def test_frames_of_cuda_and_of_a_programs_start_are_left_out():
    """What is left is what the caller wrote."""
    stack = a_stack(*CUDA, Frame("decode", "/app/engine"), *MAIN)
    assert (Frame("decode", "/app/engine"), MAIN[0]) == callers(stack)


def test_the_static_runtime_and_the_headers_template_are_the_call_itself():
    """Both lie in the caller's own program."""
    template = Frame("cudaError cudaMalloc<double>(double**, unsigned long)", "/app/engine")
    stack = a_stack(Frame("__cudart516", "/app/engine"), template, *MAIN, call="cudaMalloc")
    assert (MAIN[0],) == callers(stack)


def test_a_library_of_a_kind_with_cudas_name_in_it_is_the_callers():
    """libcuda.so is CUDA, libcudagraphs_of_mine.so is not."""
    mine = Frame("replay", "/app/libcudagraphs_of_mine.so")
    assert (mine, MAIN[0]) == callers(a_stack(*CUDA, mine, *MAIN))


def test_pythons_frames_take_the_place_of_the_interpreters():
    """The binding's frame stays: it says which call of the framework it was."""
    binding = Frame("TensorNumpy", "/site/paddle/libpaddle.so")
    assert (binding, *PYTHON) == callers(a_stack(*CUDA, binding, *INTERPRETER, *MAIN, python=PYTHON))


def test_without_pythons_frames_the_interpreter_is_one_frame_a_library():
    """Thirty frames of an interpreter say no more than one."""
    found = callers(a_stack(*CUDA, INTERPRETER[0], INTERPRETER[0], *MAIN))
    assert (Frame("Python code", INTERPRETER[0].file), MAIN[0]) == found


def test_python_alone_will_do():
    """Where the CPU may not be sampled there are no native stacks."""
    assert PYTHON == callers(a_stack(python=PYTHON))


def test_a_stack_of_nothing_but_cuda_has_no_caller():
    """The unwinder gave up in a library without unwinding tables."""
    assert () == callers(a_stack(*CUDA))


def test_calls_are_counted_by_name_and_place():
    """Two stacks that differ inside CUDA alone are one place; 3 + 2 calls there, 1 elsewhere."""
    one, other = Frame("save", "/app/engine"), Frame("sample", "/app/engine")
    stacks = [a_stack(*CUDA, one, count=3), a_stack(CUDA[1], one, count=2), a_stack(*CUDA, other)]
    (found,) = origins_of(stacks)
    assert ("cudaStreamSynchronize", "stream_sync", 6, 0) == (found.call, found.kind, found.count, found.others)
    assert [(5, (one,)), (1, (other,))] == [(origin.count, origin.frames) for origin in found.origins]


def test_calls_that_neither_wait_nor_copy_are_left_out():
    """A launch with a back-trace is not what was asked for."""
    stacks = [a_stack(*MAIN, call="cudaLaunchKernel"), a_stack(*MAIN, call="cudaMalloc"), a_stack(*MAIN, call="x")]
    assert () == origins_of(stacks)


def test_the_call_with_the_most_calls_comes_first_and_rare_places_are_counted():
    """Seven places: five are shown, two counted."""
    waits = [a_stack(*CUDA, Frame(f"place_{at}", "/app/engine"), count=9 - at) for at in range(7)]
    copy = a_stack(*MAIN, call="cudaMemcpy", count=1000)
    first, second = origins_of([*waits, copy])
    assert ("cudaMemcpy", 1000) == (first.call, first.count)
    assert (5, 2, "place_0") == (len(second.origins), second.others, second.origins[0].frames[0].function)


def test_the_text_names_counts_and_places_and_no_time_of_the_run():
    """A threshold of 20 µs is the only time in it; bytes that a terminal would obey are not passed on."""
    strange = Frame("evil\x1b[31m", "/app/engine")
    calls = origins_of(
        [a_stack(*CUDA, *INTERPRETER, *MAIN, count=1200, python=PYTHON), a_stack(*CUDA, strange), a_stack(*CUDA)]
    )
    lines = Diagnosis("Nsight Systems 2025.3.1", ("nsys",), 0, 20_000, calls, ("a note",)).text_lines()
    text = "\n".join(lines)
    assert "20 µs" in lines[0] and "not timed" in lines[0]
    assert lines[1:4] == (
        "  cudaStreamSynchronize: 1,202 calls",
        "    1,200 × get_output (/app/worker.py:42)",
        "        from <module> (/app/serve.py:7)",
    )
    assert "(no stack was recorded)" in text
    assert "\x1b" not in text
    assert "  note: a note" == lines[-1]


def test_an_address_without_a_name_says_whose_it_is():
    """An address differs from run to run; the library does not."""
    assert "? in libpaddle.so" == Frame("0x7f8812", "/site/libpaddle.so").text()


def test_a_diagnosis_without_calls_says_so():
    """An empty list would look like a bug."""
    assert "no such call was recorded" in Diagnosis("nsys", (), 0, 20_000, (), ()).text_lines()[1]
