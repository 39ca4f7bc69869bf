"""get_stop and set_stop: the host's stop flag, and every tensor they refuse."""

from typing import Any

import numpy as np
import pytest

from fdprof.errors import ScenarioFailed


def host_tensor(array: Any) -> Any:
    import paddle

    return paddle.to_tensor(np.asarray(array), place=paddle.CPUPlace())


def test_what_set_stop_writes_get_stop_returns(ops: Any) -> None:
    """Both act on the tensor's own memory, so numpy() sees the value as well; the result is a Python bool."""
    flag = host_tensor([False])
    for value in (True, False, True):
        ops.set_stop(flag, value)
        assert ops.get_stop(flag) is value
        assert [value] == flag.numpy().tolist()


def test_a_flag_over_pinned_memory_works_alike(ops: Any) -> None:
    """pinned_tensor starts as False."""
    flag = ops.pinned_tensor([1], "bool")
    assert ops.get_stop(flag) is False
    ops.set_stop(flag, True)
    assert ops.get_stop(flag) is True


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros(1, np.int32), r"expected a bool tensor of one element, got int32 \[1\] on cpu"),
        (np.zeros(2, np.bool_), r"expected a bool tensor of one element, got bool \[2\] on cpu"),
    ],
)
def test_an_unfit_tensor_is_refused_with_what_it_is(ops: Any, array: Any, expected: str) -> None:
    """Neither function reads or writes memory of another type or size."""
    tensor = host_tensor(array)
    with pytest.raises(ScenarioFailed, match="get_stop: " + expected):
        ops.get_stop(tensor)
    with pytest.raises(ScenarioFailed, match="set_stop: " + expected):
        ops.set_stop(tensor, True)


def test_a_tensor_without_memory_is_refused(ops: Any) -> None:
    """paddle.Tensor() has no memory; FastDeploy's get_stop dereferences it."""
    import paddle

    with pytest.raises(ScenarioFailed, match="the tensor has no memory"):
        ops.get_stop(paddle.Tensor())


def test_what_is_no_tensor_is_refused(ops: Any) -> None:
    """TypeError, as of any function of that signature."""
    with pytest.raises(TypeError):
        ops.get_stop([True])


@pytest.mark.gpu
def test_a_pinned_tensor_that_moved_to_the_device_is_refused_with_the_cause(gpu_ops: Any) -> None:
    """Indexing moves Paddle's pinned tensor for good (Paddle #78835); dereferencing it then would crash."""
    flag = gpu_ops.paddle_pinned_tensor([1], "bool")
    gpu_ops.set_stop(flag, True)
    assert gpu_ops.get_stop(flag) is True
    flag[0]
    with pytest.raises(ScenarioFailed, match=r"is on gpu:0, .*indexed in Python\? .*#78835"):
        gpu_ops.get_stop(flag)
    with pytest.raises(ScenarioFailed, match=r"is on gpu:0"):
        gpu_ops.set_stop(flag, False)
