"""A decode loop of FastDeploy's shape with fdprof's markers: `python docs/fastdeploy_shaped.py`.

Overlap schedule: the tokens of step k - 1 are waited for and saved while the GPU is at step k.  Runs with Paddle where
that finds a GPU, else with numpy on the CPU.
"""

import numpy as np

from fdprof import fence, step, transfer

try:
    import paddle
except ImportError:
    paddle = None

STEPS, ROWS, VOCABULARY = 20, 64, 1009


class PaddleGpu:
    """What the loop needs of Paddle, in calls that 2.6 and 3.x share."""

    def __init__(self):
        self.tensor, self.event = paddle.to_tensor, paddle.device.cuda.Event

    def copy(self, host, tensor):
        host.copy_(tensor, False)  # the second argument is `blocking`


class Cpu:
    """The same without a GPU: a copy is over when its call returns, so its event has nothing to wait for."""

    class HostTensor(np.ndarray):
        pin_memory, numpy = np.ndarray.copy, np.ndarray.copy

    def tensor(self, array):
        return array.view(self.HostTensor)

    def copy(self, host, tensor):
        host[:] = tensor

    def event(self):
        return self

    def record(self): ...
    def synchronize(self): ...


class ModelRunner:
    def __init__(self, device, save):
        self.device, self.save, self.post_process_event = device, save, None
        self.weights = device.tensor(np.full((512, 512), 1 / 512, dtype=np.float32))
        self.tokens = device.tensor(np.arange(ROWS))
        self.tokens_host = device.tensor(np.arange(ROWS)).pin_memory()

    def execute_model(self, k):
        with step(k):  # all of the step, on the thread that launches its kernels
            for _ in range(8):
                self.weights = self.weights @ self.weights  # stands for the forward
            self.save_output()  # of step k - 1
            self.tokens = (self.tokens * 5 + 3) % VOCABULARY  # stands for the sampling
            self.post_process_event = self.device.event()
            with transfer("sampled_token_ids"):  # the calls that start the copies, and the record of their event
                self.device.copy(self.tokens_host, self.tokens)
                self.post_process_event.record()

    def save_output(self):
        if self.post_process_event is not None:
            with fence("sampled_token_ids"):  # the wait and nothing else
                self.post_process_event.synchronize()
            self.save(self.tokens_host.numpy().tolist())


if __name__ == "__main__":
    messages = []  # stands for the queue to the token processor
    runner = ModelRunner(PaddleGpu() if paddle and paddle.device.cuda.device_count() else Cpu(), messages.append)
    for k in range(STEPS):
        runner.execute_model(k)
    runner.save_output()
    print(type(runner.device).__name__, "tokens of row 1:", *(message[1] for message in messages))
