"""A decode loop of vLLM's shape with fdprof's markers: `python docs/vllm_shaped.py`.

Asynchronous scheduling: tokens are copied on a stream of their own, and those of step k - 1 are waited for while the
GPU is at step k.  Runs with torch where that finds a CUDA GPU, else with numpy on the CPU.
"""

import numpy as np

from fdprof import fence, step, transfer

try:
    import torch
except ImportError:
    torch = None

STEPS, ROWS, VOCABULARY = 20, 64, 1009


class TorchCuda:
    def __init__(self):
        self.copy_stream = torch.cuda.Stream()

    def tensor(self, array):
        return torch.from_numpy(array).cuda()

    def copied(self, tensor):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            host = tensor.to("cpu", non_blocking=True)  # torch takes pinned memory for it
            event = torch.cuda.Event()
            event.record()
        return host, event


class Cpu:
    """The same without a GPU: a copy is over when its call returns, so its event has nothing to wait for."""

    tensor = staticmethod(np.array)

    def copied(self, tensor):
        return tensor.copy(), self

    def synchronize(self): ...


class AsyncOutput:
    def __init__(self, device, tokens):
        self.tokens = tokens  # the device's tensor has to live until it is copied
        with transfer("sampled_token_ids"):  # the calls that start the copy, and the record of its event
            self.host, self.event = device.copied(tokens)

    def get_output(self):
        with fence("sampled_token_ids"):  # the wait and nothing else
            self.event.synchronize()
        return self.host.tolist()


class ModelRunner:
    def __init__(self, device):
        self.device, self.tokens = device, device.tensor(np.arange(ROWS))
        self.weights = device.tensor(np.full((512, 512), 1 / 512, dtype=np.float32))

    def execute_model(self):
        for _ in range(8):
            self.weights = self.weights @ self.weights  # stands for the forward
        self.tokens = (self.tokens * 5 + 3) % VOCABULARY  # stands for the sampling
        return AsyncOutput(self.device, self.tokens)


if __name__ == "__main__":
    runner = ModelRunner(TorchCuda() if torch and torch.cuda.is_available() else Cpu())
    flying, outputs = None, []
    for k in range(STEPS):
        with step(k):  # all of the step, on the thread that launches its kernels
            before, flying = flying, runner.execute_model()
            if before is not None:
                outputs.append(before.get_output())  # of step k - 1
    outputs.append(flying.get_output())
    print(type(runner.device).__name__, "tokens of row 1:", *(output[1] for output in outputs))
