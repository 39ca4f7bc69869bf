# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.session: blocks, bounds, the choice of a backend and the order of sides."""

from itertools import islice

import pytest

from fdprof import session as session_module
from fdprof.backends.paddle import PaddleBackend
from fdprof.backends.sim import SimBackend
from fdprof.errors import EnvironmentMissing, ScenarioFailed, UsageError
from fdprof.model import DeviceWork
from fdprof.params import Extent, LoopParams
from fdprof.session import Session, abba, open_backend


@pytest.mark.parametrize("seed", range(5))
def test_each_round_is_a_b_b_a_or_b_a_a_b_so_that_a_drift_cancels(seed):
    """In every four blocks each side has the first and the last, or the two between: a drift adds as much to both."""
    order = list(islice(abba(seed), 400))
    rounds = {tuple(order[at : at + 4]) for at in range(0, 400, 4)}
    assert {(0, 1, 1, 0), (1, 0, 0, 1)} == rounds  # of 100 rounds drawn both kinds come
    assert order == list(islice(abba(seed), 400))  # the seed decides


def test_each_block_draws_its_own_times_and_both_sides_the_same(make_session):
    """Block n of every mode draws by the seed + n."""
    session = make_session(steps=4, device_times="normal:0.2", kernels=1)

    def kernel_ns(mode, index):
        log = session.block(mode, index).log
        return (log.kernels["end_ns"] - log.kernels["start_ns"])[log.kernels["kernel"] == 0].tolist()

    drawn = {(mode, index): kernel_ns(mode, index) for mode in ("sync", "async") for index in (0, 1)}
    assert drawn["sync", 0] == drawn["async", 0] != drawn["sync", 1] == drawn["async", 1]


class Asked(SimBackend):
    """A simulator that keeps what each loop's kernels are asked for."""

    def __init__(self):
        super().__init__(30)
        self.kernel_ns = []

    def open_loop(self, plan):
        self.kernel_ns.append(plan.kernel_ns.tolist())
        return super().open_loop(plan)


def test_work_that_is_given_is_run_as_it_is_and_nothing_is_calibrated(make_session):
    """One loop is opened, for the block; its kernels of 12,345 ns are no whole share of the 1 ms asked for."""
    given = DeviceWork(kernel_ns=12_345, step_ns=250_000)
    backend = Asked()
    session = Session(backend, "stop_flag", LoopParams(), Extent(steps=4, warmup=1), work=given)
    run = session.run("async")
    (kernel_ns,) = backend.kernel_ns
    assert {12_345} == set(kernel_ns)
    assert (given, 250_000) == (run.work, run.device_work_ns)
    assert any("--work-of" in caveat for caveat in run.caveats)
    calibrating = make_session(backend=backend)
    assert not any("--work-of" in caveat for caveat in calibrating.new_run("async").caveats)
    assert len(backend.kernel_ns) > 1


@pytest.mark.parametrize("times", ["normal:0.2", "lognormal:0.5", "fixed"])
def test_times_are_drawn_around_the_work_that_is_given(times):
    """Step for step the kernels that the calibrating session's block had."""
    asked = []
    work = None
    for _ in range(2):
        backend = Asked()
        session = Session(backend, "stop_flag", LoopParams(device_times=times), Extent(steps=9, warmup=1), work=work)
        work = session.work
        session.block("async", 3)
        asked.append(backend.kernel_ns[-1])
    assert asked[0] == asked[1]
    mean = sum(asked[1]) / len(asked[1])
    assert mean == pytest.approx(work.kernel_ns, rel=0.0 if times == "fixed" else 0.4)


def test_a_session_calibrates_once_before_its_first_block(make_session, monkeypatch):
    """So that blocks which something traces later run what the bare ones before them ran."""
    calls = []
    calibrate = session_module.calibrate
    monkeypatch.setattr(session_module, "calibrate", lambda *given: calls.append(given) or calibrate(*given))
    session = make_session(steps=4, device_times="normal:0.2")
    for index in range(3):
        session.block("async", index)
        session.block("sync", index)
    assert 1 == len(calls)


def test_the_limit_is_that_of_the_work_drawn_for_all_blocks(make_session):
    """Kernels of a block run as long as its work was drawn: the mean over three blocks, and not that of the first."""
    session = make_session(steps=50, device_times="lognormal:0.5")
    works = [session.run("async", blocks=blocks).device_work_ns for blocks in (1, 3)]
    busy = [session.block("async", index).log.kernels for index in range(3)]
    means = [float((table["end_ns"] - table["start_ns"]).sum()) for table in busy]
    assert works[0] != works[1]
    assert works[1] / works[0] == pytest.approx(sum(means) / 3 / means[0], rel=0.02)


def test_auto_says_why_it_simulates(monkeypatch):
    """Where Paddle does not work, the simulator is taken and the reason told."""
    monkeypatch.setattr(PaddleBackend, "missing", classmethod(lambda cls: ("no GPU here", "get one")))
    backend, reason = open_backend("auto", 30)
    assert isinstance(backend, SimBackend)
    assert "no GPU here" == reason


def test_a_named_backend_that_does_not_work_is_an_error_with_a_hint(monkeypatch):
    """Asked for by name, paddle is not replaced in silence."""
    monkeypatch.setattr(PaddleBackend, "missing", classmethod(lambda cls: ("no GPU here", "get one")))
    with pytest.raises(EnvironmentMissing, match="backend paddle cannot run here: no GPU here") as error:
        open_backend("paddle", 30)
    assert ("get one", 6) == (error.value.hint, error.value.exit_code)


def test_blocks_are_numbered_by_the_order_they_ran_in(make_session):
    """Two modes in one session: positions count over both, indices are the caller's."""
    session = make_session(steps=3, warmup=0)
    blocks = [session.block("sync", 0), session.block("async", 0), session.block("async", 1)]
    assert [(0, 0), (0, 1), (1, 2)] == [(block.index, block.position) for block in blocks]


def test_a_run_without_blocks_states_mode_and_work(make_session, round_sim):
    """The run's parameters hold those of the scenario and of the extent; the device work is the one measured."""
    run = make_session(backend=round_sim, steps=7, warmup=2, sequences=5).new_run("overlap")
    assert (1, "pinned", "overlap", 1_000_000, 200_000) == (
        run.lag,
        run.memory.value,
        run.mode,
        run.device_work_ns,
        run.host_work_ns,
    )
    assert {"steps": 7, "warmup": 2, "timeout": 30.0, "sequences": 5}.items() <= run.params.items()
    assert run.is_simulated
    assert "simulated" in run.caveats[0]


@pytest.mark.parametrize("steps", [0, 100_001])
def test_an_extent_out_of_bounds_names_its_option(steps):
    """The message names --steps, what it is and its bounds."""
    with pytest.raises(UsageError, match=f"--steps is {steps:,}, expected 1 to 100,000"):
        Extent(steps=steps)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--sequences", {"sequences": 0}),
        ("--device-us", {"device_us": float("nan")}),
        ("--device-us", {"device_us": float("inf")}),
        ("--kernels", {"kernels": 1001}),
        ("--seed", {"seed": -1}),
    ],
)
def test_a_parameter_out_of_bounds_names_its_option(option, values):
    """Not-a-number and infinity are out of every bound."""
    with pytest.raises(UsageError, match=f"{option} is"):
        LoopParams(**values)


def test_bounds_themselves_are_allowed():
    """The bounds are inclusive."""
    assert (1, 1000) == (LoopParams(sequences=1).sequences, LoopParams(kernels=1000).kernels)


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("need 20,040,000 stamps", {"steps": 20_000, "warmup": 0, "kernels": 1000}),
        ("move 65,537 values each make 131,074,000", {"steps": 2000, "warmup": 0, "sequences": 65_536}),
    ],
)
def test_a_block_too_large_for_memory_is_refused_before_it_runs(make_session, message, changes):
    """20,000 x 1,002 stamps, and 2,000 x (65,536 tokens and a flag), are above what is kept."""
    with pytest.raises(UsageError, match=message):
        make_session(**changes)


def test_device_work_longer_than_the_timeout_fails(make_session):
    """A step of 1 s on a virtual device is not waited for longer than 1 ms."""
    session = make_session(timeout=0.001, device_us=1_000_000.0)
    with pytest.raises(ScenarioFailed, match=r"did not end within 0\.001 s"):
        session.block("sync", 0)


def test_garbage_collection_is_on_again_after_a_block_that_failed(make_session, monkeypatch):
    """The loop turns Python's collector off and must turn it on however the loop ends."""
    import gc

    def fail(self, duration_ns):
        raise RuntimeError("host work")

    monkeypatch.setattr(SimBackend, "host_work", fail)
    with pytest.raises(RuntimeError, match="host work"):
        make_session(steps=3).block("sync", 0)
    assert gc.isenabled()
