"""fdprof.nvml: what NVML says of one GPU, and what is said where it cannot be asked.

No machine of CI has a GPU, so a module with a few of pynvml's functions stands in for the driver; that pynvml has these
functions, and these bits, is checked against pynvml itself.
"""

# ruff: noqa: SIM300 - the expected value stands first
import sys
from types import ModuleType

import pytest

from fdprof.model import GpuState
from fdprof.nvml import Gpu, reasons_in

BUS_ID = "0000:17:00.0"
SAYS = {"sm": 1_980, "memory": 3_201, "temperature": 41, "power": 312_456, "reasons": 0x24}
STATE = GpuState(
    sm_clock_mhz=1_980,
    memory_clock_mhz=3_201,
    temperature_c=41,
    power_mw=312_456,
    throttle=("software power cap", "software thermal slowdown"),
)
"""What SAYS comes to: 0x24 is 0x04, the power cap, and 0x20, the thermal slowdown by software."""


class NVMLError(Exception):
    """pynvml's, whose text is NVML's own."""


def a_driver(gpus, init=None):
    """Return a module pynvml that knows these GPUs by bus id; an exception among the answers is raised."""
    driver = ModuleType("pynvml")
    driver.NVMLError = NVMLError
    driver.NVML_CLOCK_SM, driver.NVML_CLOCK_MEM, driver.NVML_TEMPERATURE_GPU = 1, 2, 0
    clocks = {driver.NVML_CLOCK_SM: "sm", driver.NVML_CLOCK_MEM: "memory"}
    sensors = {driver.NVML_TEMPERATURE_GPU: "temperature"}

    def nvml_init():
        if init is not None:
            raise init

    def handle_of(bus_id):
        if bus_id.decode() not in gpus:
            raise NVMLError("Not Found")
        return gpus[bus_id.decode()]

    def answer(handle, question):
        if isinstance(handle[question], Exception):
            raise handle[question]
        return handle[question]

    driver.nvmlInit = nvml_init
    driver.nvmlDeviceGetHandleByPciBusId = handle_of
    driver.nvmlDeviceGetClockInfo = lambda handle, clock: answer(handle, clocks[clock])
    driver.nvmlDeviceGetTemperature = lambda handle, sensor: answer(handle, sensors[sensor])
    driver.nvmlDeviceGetPowerUsage = lambda handle: answer(handle, "power")
    driver.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: answer(handle, "reasons")
    return driver


@pytest.fixture
def install(monkeypatch):
    """Install a driver whose one GPU gives the answers of SAYS but for these changes."""

    def put(init=None, **changes):
        monkeypatch.setitem(sys.modules, "pynvml", a_driver({BUS_ID: SAYS | changes}, init))

    return put


def test_clocks_temperature_power_and_reasons_are_read(install):
    """Each answer is in its own place: SM 1,980 MHz, memory 3,201 MHz, 41 °C, 312,456 mW, two reasons."""
    install()
    gpu = Gpu(BUS_ID)
    assert gpu.problem is None
    assert STATE == gpu.state()


def test_a_state_is_of_the_moment(install, monkeypatch):
    """The same GPU asked again gives the clock of then: 1,980 MHz, then 1,410 MHz."""
    answers = dict(SAYS)
    monkeypatch.setitem(sys.modules, "pynvml", a_driver({BUS_ID: answers}))
    gpu = Gpu(BUS_ID)
    before = gpu.state()
    answers["sm"] = 1_410
    after = gpu.state()
    assert before is not None and after is not None
    assert (1_980, 1_410) == (before.sm_clock_mhz, after.sm_clock_mhz)


@pytest.mark.parametrize(("expected", "bus_id"), [(1_980, BUS_ID), (1_200, "0000:65:00.0")])
def test_a_state_is_of_the_gpu_with_that_bus_id(monkeypatch, expected, bus_id):
    """Of two GPUs one runs at 1,980 MHz and the other at 1,200."""
    gpus = {BUS_ID: SAYS, "0000:65:00.0": SAYS | {"sm": 1_200}}
    monkeypatch.setitem(sys.modules, "pynvml", a_driver(gpus))
    state = Gpu(bus_id).state()
    assert state is not None
    assert expected == state.sm_clock_mhz


@pytest.mark.parametrize(
    ("field", "question"),
    [
        ("sm_clock_mhz", "sm"),
        ("memory_clock_mhz", "memory"),
        ("temperature_c", "temperature"),
        ("power_mw", "power"),
        ("throttle", "reasons"),
    ],
)
def test_what_the_driver_does_not_answer_is_none_and_the_rest_is_read(install, field, question):
    """One question raises NVML's Not Supported; the four other entries are those of STATE."""
    install(**{question: NVMLError("Not Supported")})
    state = Gpu(BUS_ID).state()
    assert state is not None
    differing = {name for name in GpuState.__slots__ if getattr(STATE, name) != getattr(state, name)}
    assert {field} == differing
    assert getattr(state, field) is None


def test_no_reason_is_none_given_and_not_an_unknown_one(install):
    """Mask 0 gives an empty tuple: NVML was asked, and nothing holds the clocks down."""
    install(reasons=0)
    state = Gpu(BUS_ID).state()
    assert state is not None
    assert () == state.throttle


def test_a_missing_library_is_a_problem_and_gives_no_state(monkeypatch):
    """None among Python's modules is what makes an import fail."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gpu = Gpu(BUS_ID)
    assert "GPU clocks were not read: nvidia-ml-py is not installed" == gpu.problem
    assert gpu.state() is None


def test_a_driver_that_does_not_start_is_a_problem_in_nvmls_words(install):
    """Without a driver nvmlInit raises."""
    install(init=NVMLError("Driver Not Loaded"))
    gpu = Gpu(BUS_ID)
    assert "GPU clocks were not read: NVML says Driver Not Loaded" == gpu.problem
    assert gpu.state() is None


def test_a_gpu_that_nvml_does_not_know_is_a_problem(install):
    """Another bus id, as a container may hide a GPU."""
    install()
    gpu = Gpu("0000:99:00.0")
    assert "GPU clocks were not read: NVML says Not Found" == gpu.problem
    assert gpu.state() is None


@pytest.mark.parametrize(
    ("expected", "mask"),
    [
        ((), 0x0),
        (("gpu idle",), 0x1),
        (("applications clocks setting",), 0x2),
        (("software power cap",), 0x4),
        (("hardware slowdown",), 0x8),
        (("sync boost",), 0x10),
        (("software thermal slowdown",), 0x20),
        (("hardware thermal slowdown",), 0x40),
        (("hardware power brake",), 0x80),
        (("display clocks setting",), 0x100),
        (("software power cap", "software thermal slowdown"), 0x24),
        (("hardware slowdown", "hardware thermal slowdown", "hardware power brake"), 0xC8),
        ((), 0x200),
        (("gpu idle",), 1 << 63 | 0x1),
    ],
)
def test_a_mask_gives_the_names_of_its_bits(expected, mask):
    """0xC8 is 0x08 + 0x40 + 0x80, in this order; bits from 0x200 on have no name in nvml.h and give none."""
    assert expected == reasons_in(mask)


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("gpu idle", "GpuIdle"),
        ("applications clocks setting", "ApplicationsClocksSetting"),
        ("software power cap", "SwPowerCap"),
        ("hardware slowdown", "HwSlowdown"),
        ("sync boost", "SyncBoost"),
        ("software thermal slowdown", "SwThermalSlowdown"),
        ("hardware thermal slowdown", "HwThermalSlowdown"),
        ("hardware power brake", "HwPowerBrakeSlowdown"),
        ("display clocks setting", "DisplayClockSetting"),
    ],
)
def test_the_names_are_of_the_bits_that_pynvml_calls_so(name, constant):
    """The numbers above stand in nvml.h; here they are pynvml's."""
    pynvml = pytest.importorskip("pynvml")
    assert (name,) == reasons_in(getattr(pynvml, f"nvmlClocksThrottleReason{constant}"))


def test_pynvml_has_what_the_driver_of_these_tests_has():
    """Each name of the stand-in, with the same numbers: else these tests would pass and no clock would be read."""
    pynvml = pytest.importorskip("pynvml")
    driver = {name: value for name, value in vars(a_driver({})).items() if not name.startswith("__")}
    assert 9 <= len(driver)
    for name, value in driver.items():
        assert hasattr(pynvml, name), name
        assert not isinstance(value, int) or value == getattr(pynvml, name)
