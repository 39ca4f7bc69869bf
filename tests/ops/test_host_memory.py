"""Pinned tensors: their memory, who owns it, and copies into it."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fdprof.errors import ScenarioFailed


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_a_pinned_tensor_has_the_shape_and_dtype_and_is_zero(ops: Any, dtype: str) -> None:
    """It is an ordinary CPU tensor to Paddle."""
    tensor = ops.pinned_tensor((3, 2), dtype)
    np.testing.assert_array_equal(np.zeros((3, 2), dtype), tensor.numpy())
    assert dtype == str(tensor.numpy().dtype)
    assert "cpu" in str(tensor.place).lower()


def test_memory_is_page_aligned(ops: Any) -> None:
    """4 KiB pages, as cudaHostAlloc gives them."""
    assert ops.pinned_tensor([1], "bool").data_ptr() % 4096 == 0


@pytest.mark.parametrize(
    ("shape", "dtype"), [([0], "bool"), ([4, -1], "bool"), ([2**40, 2**40], "int64"), ([1], "int3")]
)
def test_impossible_memory_is_refused(ops: Any, shape: list[int], dtype: str) -> None:
    """ValueError, before anything is allocated."""
    with pytest.raises(ValueError, match=r"extent|unknown dtype"):
        ops.pinned_tensor(shape, dtype)


def test_memory_is_freed_once_no_tensor_refers_to_it(ops: Any) -> None:
    """Dead blocks go at the next pinned_tensor(), so a loop that makes buffers does not grow."""
    ops.pinned_tensor([1], "bool")
    gc.collect()
    ops.pinned_tensor([1], "bool")
    before = ops.pinned_count()
    for _ in range(50):
        ops.pinned_tensor([1024], "int64")
    assert before == ops.pinned_count()


def test_a_living_view_keeps_the_memory(ops: Any) -> None:
    """reshape() shares the memory; dropping the first tensor must not free it."""
    view = ops.pinned_tensor([1], "bool").reshape([1, 1])
    ops.set_stop(view, True)
    gc.collect()
    others = [ops.pinned_tensor([1], "bool") for _ in range(8)]
    assert view.data_ptr() not in {other.data_ptr() for other in others}
    assert ops.get_stop(view) is True


def test_freeing_leaves_a_tensor_without_memory(ops: Any) -> None:
    """Later use of the tensor is refused; it cannot reach freed memory."""
    tensor = ops.pinned_tensor([1], "bool")
    before = ops.pinned_count()
    ops.free_pinned(tensor)
    assert before - 1 == ops.pinned_count()
    with pytest.raises(ScenarioFailed, match="no memory"):
        ops.get_stop(tensor)
    with pytest.raises(ScenarioFailed, match="no memory"):
        ops.free_pinned(tensor)


def test_shared_or_foreign_memory_is_not_freed(ops: Any) -> None:
    """A view would be left without memory, and Paddle's memory is Paddle's to free."""
    import paddle

    tensor = ops.pinned_tensor([1], "bool")
    view = tensor.reshape([1, 1])
    with pytest.raises(ScenarioFailed, match="another tensor still refers"):
        ops.free_pinned(tensor)
    assert ops.get_stop(view) is False
    with pytest.raises(ScenarioFailed, match=r"not from pinned_tensor"):
        ops.free_pinned(paddle.to_tensor(np.zeros(1), place=paddle.CPUPlace()))


def test_memory_kind_says_what_the_memory_is(ops: Any) -> None:
    """Pinned only where there is CUDA; Paddle's ordinary CPU tensor is pageable everywhere."""
    import paddle

    expected = "pinned" if ops.built_for_cuda else "pageable"
    assert expected == ops.memory_kind(ops.pinned_tensor([1], "bool"))
    assert expected == ops.memory_kind(ops.paddle_pinned_tensor([1], "bool"))
    assert ops.memory_kind(paddle.to_tensor(np.zeros(1), place=paddle.CPUPlace())) == "pageable"


def test_copy_async_copies_all_bytes(ops: Any, upload: Callable[..., Any]) -> None:
    """From where the kernels run to the host and back; shapes may differ, bytes may not."""
    values = np.arange(6, dtype=np.int64)
    host = ops.pinned_tensor([2, 3], "int64")
    ops.copy_async(host, upload(values))
    ops.synchronize_current(10.0)
    assert values.tolist() == host.numpy().reshape(-1).tolist()
    back = upload(np.zeros(6, np.int64))
    ops.copy_async(back, host)
    ops.synchronize_current(10.0)
    assert values.tolist() == back.numpy().tolist()


def test_copies_of_unequal_sizes_are_refused(ops: Any, upload: Callable[..., Any]) -> None:
    """Paddle's copy_ would resize the destination in silence."""
    host = ops.pinned_tensor([2], "int64")
    with pytest.raises(ScenarioFailed, match=r"src has 24 bytes \(int64 \[3\] .*\) and dst 16"):
        ops.copy_async(host, upload(np.zeros(3, np.int64)))


@pytest.mark.parametrize("memory", ["pinned_tensor", "paddle_pinned_tensor"])
def test_write_host_copies_the_bytes_of_an_array(ops: Any, memory: str) -> None:
    """Of any dtype and shape of as many bytes, into our pinned memory and Paddle's."""
    tensor = getattr(ops, memory)([2, 3], "int32")
    ops.write_host(tensor, np.arange(6, dtype=np.int32))
    assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    ops.write_host(tensor, np.zeros(3, dtype=np.int64))
    assert tensor.numpy().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_write_host_refuses_other_sizes_and_scattered_arrays(ops: Any) -> None:
    """The bytes must be one block, and fill the tensor."""
    tensor = ops.pinned_tensor([4], "int32")
    with pytest.raises(ScenarioFailed, match=r"the array has 20 bytes and the tensor 16 \(int32 \[4\]"):
        ops.write_host(tensor, np.zeros(5, np.int32))
    with pytest.raises(ValueError, match="contiguous"):
        ops.write_host(tensor, np.zeros(8, np.int32)[::2])


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "int64"])
def test_poison_sets_every_byte(ops: Any, dtype: str) -> None:
    """And numpy() shows the bytes as they are, also those of a bool."""
    tensor = ops.pinned_tensor([3], dtype)
    ops.poison(tensor, 0xA5)
    assert {0xA5} == set(tensor.numpy().view(np.uint8).tolist())


@pytest.mark.gpu
def test_tensors_on_the_device_are_not_written_from_the_host(gpu_ops: Any, upload: Callable[..., Any]) -> None:
    """A store there would crash the process."""
    tensor = upload(np.zeros(4, np.int32))
    with pytest.raises(ScenarioFailed, match="not in host memory"):
        gpu_ops.write_host(tensor, np.zeros(4, np.int32))
    with pytest.raises(ScenarioFailed, match="not in host memory"):
        gpu_ops.poison(tensor, 0)


def test_only_mapped_memory_has_a_device_address(ops: Any) -> None:
    """Without CUDA none has."""
    with pytest.raises(ScenarioFailed, match="device_pointer"):
        ops.device_pointer(ops.pinned_tensor([1], "int64"))


@pytest.mark.gpu
def test_mapped_memory_has_a_device_address(gpu_ops: Any) -> None:
    """With unified addressing it is the host's address."""
    tensor = gpu_ops.pinned_tensor([1], "int64", mapped=True)
    assert gpu_ops.device_pointer(tensor) != 0


@pytest.mark.gpu
def test_a_pinned_tensor_survives_indexing(gpu_ops: Any) -> None:
    """Paddle's own moves to the device instead (Paddle #78835)."""
    tensor = gpu_ops.pinned_tensor([4], "int64")
    address = tensor.data_ptr()
    assert int(tensor[0]) == 0
    assert address == tensor.data_ptr()
    assert gpu_ops.memory_kind(tensor) == "pinned"
    theirs = gpu_ops.paddle_pinned_tensor([4], "int64")
    theirs[0]
    assert gpu_ops.memory_kind(theirs) == "device"
