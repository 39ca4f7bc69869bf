# ruff: noqa: SIM300 - the expected value stands first
"""Whole step times of the simulator, worked out by hand from the round costs of tests/builders.py, exact in ns.

The step of these tests: 2 kernels and the update, 10,000 ns of device work; schedule 1,200 and save_output 800.
Queued back to back, a step is 2 kernels + update 300 + 3 gaps of 100, so calibration makes a kernel (10,000 - 600) / 2
= 4,700.  Times below count from the start of a step.

All modes launch alike: the forward's call 50 + 2 x 20 ends at 90, the update's 50 + 20 ends at 160.
On an idle device the first kernel starts at 50 + 600 = 650 and the work runs on, gap 100 between:
  kernels 650-5,350 and 5,450-10,150, update 10,250-10,550.
Host work costs 10 more than asked for: schedule 1,210, save_output 810.  A read of tokens 150, of the flag 30.
"""

import numpy as np
import pytest

from fdprof.analysis.ledger import ledger_of

STEPS, WARMUP, SEQUENCES = 12, 3, 2


@pytest.fixture
def session(round_sim, make_session):
    return make_session(
        backend=round_sim,
        steps=STEPS,
        warmup=WARMUP,
        sequences=SEQUENCES,
        device_us=10.0,
        kernels=2,
        schedule_us=1.2,
        save_output_us=0.8,
    )


@pytest.fixture
def ledger(session):
    """Return the ledger of one block in a mode."""

    def of(mode):
        run = session.new_run(mode)
        object.__setattr__(run, "blocks", (session.block(mode, 0),))
        return ledger_of(run)

    return of


def _every_step(value):
    return [value] * STEPS


def test_calibration_finds_the_kernel_time_of_the_module_comment(session):
    """Kernels of 4,700 make 10,000 of device work."""
    assert (4700, 10_000) == (session.work.kernel_ns, session.work.step_ns)


def test_a_sync_step_pays_both_copies_on_an_idle_device(ledger):
    """Each `.cpu()` blocks: the second copy starts on a device that has long been idle."""
    # tokens: fetch call 3,000 -> 3,160; the copy starts 500 after the update, 11,050-11,200;
    #         staging 240 + wake 250 + after 2,000 -> 13,690
    # flag:   3,000 -> 16,690; idle device, start latency 200: copy 16,890-17,040; + 2,490 -> 19,530
    # schedule 1,210 -> 20,740; reads 180 -> 20,920; save_output 810 -> 21,730
    got = ledger("sync")
    assert _every_step(21_730) == got.counted("window_ns").tolist()
    # issue = blocked = 19,530 - 160; busy = 4,700 + 4,700 + 300
    assert _every_step(19_370) == got.counted("issue_ns").tolist()
    assert _every_step(19_370) == got.counted("host_blocked_ns").tolist()
    assert _every_step(2_020) == got.counted("host_work_ns").tolist()
    assert _every_step(9_700) == got.counted("device_busy_ns").tolist()
    assert _every_step(12_030) == got.counted("device_idle_ns").tolist()
    assert got.fence_wait_ns is None


def test_a_sync_pinned_step_pays_one_wait_and_then_its_host_work(ledger):
    """Both copies are queued behind the update, and one synchronisation waits for them."""
    # copy calls 2 x 1,000 -> 2,160; synchronize call 50 -> 2,210
    # copies 11,050-11,200 and, 100 later, 11,300-11,450; wake 250 -> 11,700
    # schedule 1,210 -> 12,910; reads 180 -> 13,090; save_output 810 -> 13,900
    got = ledger("sync-pinned")
    assert _every_step(13_900) == got.counted("window_ns").tolist()
    assert _every_step(2_000) == got.counted("issue_ns").tolist()
    assert _every_step(11_700 - 2_160) == got.counted("fence_wait_ns").tolist()


def test_an_async_step_hides_the_schedule_but_not_save_output(ledger):
    """The fence is waited for after the schedule, so the device covers the schedule."""
    # copies queued at 2,160; record 70 -> 2,230; schedule 1,210 -> 3,440; wait call 50 -> 3,490
    # the event ends with the second copy at 11,450; wake 250 -> 11,700
    # reads 180 -> 11,880; save_output 810 -> 12,690
    got = ledger("async")
    assert _every_step(12_690) == got.counted("window_ns").tolist()
    assert _every_step(11_700 - 3_440) == got.counted("fence_wait_ns").tolist()
    assert _every_step(11_700 - 3_440) == got.counted("host_blocked_ns").tolist()


def test_an_overlap_step_is_the_device_stream_back_to_back(ledger):
    """The device never waits for the host: its own period is the step."""
    # 4,700 + 100 + 4,700 + 100 + 300, then + 500 copy 150 + 100 copy 150, + 300 to the next kernel = 11,100.
    # The host's own time, 160 + 2,000 + 70 + 1,210 + 50 + 250 + 180 + 810 = 4,730, fits in it; the rest is the fence:
    # 11,100 - (4,730 - 50 - 250) = 6,670 inside the wait.
    got = ledger("overlap")
    assert _every_step(11_100) == got.counted("window_ns").tolist()
    assert _every_step(6_670) == got.counted("fence_wait_ns").tolist()
    assert _every_step(9_700) == got.counted("device_busy_ns").tolist()


def test_an_unfenced_step_is_fast_stale_and_caught(session):
    """Without a fence the host runs ahead, and every read of the budget's steps returns an earlier value."""
    # launches 160 + copy calls 2,000 + schedule 1,210 + reads 180 + save_output 810 = 4,360, against 11,100 of the
    # device: step k is read at 4,360 k + 3,370, long before its copy lands at 11,100 k + 11,200.
    block = session.block("unfenced", 0)
    assert _every_step(4_360) == np.diff(block.capture.step_starts_ns)[WARMUP : WARMUP + STEPS].tolist()
    reads = block.capture.reads
    assert (reads["stale"][: WARMUP + STEPS] > 0).all()
    assert not block.tokens.is_right
    assert block.tokens.stale_reads >= WARMUP + STEPS
    assert 0 == block.tokens.first_wrong.step


@pytest.mark.parametrize(("expected", "mode"), [(0, "sync"), (0, "sync-pinned"), (0, "async"), (SEQUENCES, "overlap")])
def test_overrun_is_the_lag_times_the_rows(session, expected, mode):
    """overlap learns the stop one step late and computes one more token a row."""
    tokens = session.block(mode, 0).tokens
    assert expected == tokens.overrun_tokens
    assert tokens.is_right


def test_a_full_launch_queue_blocks_the_launching_call(monkeypatch, build):
    """With room for three launches, the second step's forward waits until the first step's work has drained."""
    # Kernels issued at 650 and 670, 1,000 each: 650-1,650 and 1,750-2,750; update issued at 740: 2,850-3,150.
    # The next forward brings 2 launches; 3 + 2 > 3, so it blocks until at most 1 is pending: the two kernels' launch
    # ends at 2,750.  Its own call takes 50 + 40 more.
    import dataclasses

    from fdprof.backends.protocol import LoopPlan
    from fdprof.backends.sim import SimBackend

    profile = build.round_profile()
    profile = dataclasses.replace(profile, card=dataclasses.replace(profile.card, launch_queue_depth=3))
    monkeypatch.setattr("fdprof.backends.sim.load_profile", lambda name: profile)
    backend = SimBackend(30)
    loop = backend.open_loop(LoopPlan(SEQUENCES, 0, 8, 9, 10, kernels=2, kernel_ns=1000))
    loop.forward()
    loop.update()
    assert 160 == backend.clock_ns()
    loop.forward()
    assert 2_750 + 90 == backend.clock_ns()
