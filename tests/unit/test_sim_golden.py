# ruff: noqa: SIM300 - the expected value stands first
"""Whole step times of the simulator, worked out by hand from the round costs of tests/builders.py, exact in ns.

The step of these tests: 2 kernels and the update, 10,000 ns of device work; schedule 1,200 and save_output 800.
Queued back to back, a step is 2 kernels + update 300 + 3 gaps of 100, so calibration makes a kernel (10,000 - 600) / 2
= 4,700.  Times below count from the start of a step.

Each call to the device costs 10 of the loop's own before anything else.
All modes launch alike: the forward's call 10 + 50 + 2 x 20 ends at 100, the update's 10 + 50 + 20 at 180.
On an idle device the first kernel starts at 10 + 50 + 600 = 660 and the work runs on, gap 100 between:
  kernels 660-5,360 and 5,460-10,160, update 10,260-10,560.
Host work costs 10 more than asked for: schedule 1,210, save_output 810.
Reads: of the tokens 10 + 150, of the flag 10 + 30, together 200.
"""

import numpy as np
import pytest

from fdprof.analysis.run_times import run_times_of

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
        return run_times_of(run)

    return of


def _every_step(value):
    return [value] * STEPS


def test_calibration_finds_the_kernel_time_of_the_module_comment(session):
    """Kernels of 4,700 make 10,000 of device work."""
    assert (4700, 10_000) == (session.work.kernel_ns, session.work.step_ns)


def test_a_sync_step_pays_both_copies_on_an_idle_device(ledger):
    """Each `.cpu()` blocks: the second copy starts on a device that has long been idle."""
    # tokens: fetch call 10 + 3,000 -> 3,190; the copy starts 500 after the update, 11,060-11,210;
    #         staging 240 + wake 250 + after 2,000 -> 13,700
    # flag:   10 + 3,000 -> 16,710; idle device, start latency 200: copy 16,910-17,060; + 2,490 -> 19,550
    # schedule 1,210 -> 20,760; reads 200 -> 20,960; save_output 810 -> 21,770
    got = ledger("sync")
    assert _every_step(21_770) == got.counted("window_ns").tolist()
    # issue = blocked = 19,550 - 180; busy = 4,700 + 4,700 + 300
    assert _every_step(19_370) == got.counted("issue_ns").tolist()
    assert _every_step(19_370) == got.counted("host_blocked_ns").tolist()
    assert _every_step(2_020) == got.counted("host_work_ns").tolist()
    assert _every_step(9_700) == got.counted("device_busy_ns").tolist()
    assert _every_step(12_070) == got.counted("device_idle_ns").tolist()
    assert got.fence_wait_ns is None


def test_a_sync_pinned_step_pays_one_wait_and_then_its_host_work(ledger):
    """Both copies are queued behind the update, and one synchronisation waits for them."""
    # copy calls 2 x 1,010 -> 2,200; synchronize call 10 + 50 -> 2,260
    # copies 11,060-11,210 and, 100 later, 11,310-11,460; wake 250 -> 11,710
    # schedule 1,210 -> 12,920; reads 200 -> 13,120; save_output 810 -> 13,930
    got = ledger("sync-pinned")
    assert _every_step(13_930) == got.counted("window_ns").tolist()
    assert _every_step(2_020) == got.counted("issue_ns").tolist()
    assert _every_step(11_710 - 2_200) == got.counted("fence_wait_ns").tolist()


def test_an_async_step_hides_the_schedule_but_not_save_output(ledger):
    """The fence is waited for after the schedule, so the device covers the schedule."""
    # copies queued at 2,200; record 10 + 70 -> 2,280; schedule 1,210 -> 3,490; wait call 10 + 50 -> 3,550
    # the event ends with the second copy at 11,460; wake 250 -> 11,710
    # reads 200 -> 11,910; save_output 810 -> 12,720
    got = ledger("async")
    assert _every_step(12_720) == got.counted("window_ns").tolist()
    assert _every_step(11_710 - 3_490) == got.counted("fence_wait_ns").tolist()
    assert _every_step(11_710 - 3_490) == got.counted("host_blocked_ns").tolist()


def test_an_overlap_step_is_the_device_stream_back_to_back(ledger):
    """The device never waits for the host: its own period is the step."""
    # 4,700 + 100 + 4,700 + 100 + 300, then + 500 copy 150 + 100 copy 150, + 300 to the next kernel = 11,100.
    # The host's own time, 180 + 2,020 + 80 + 1,210 + 60 + 250 + 200 + 810 = 4,810, fits in it; the rest is the fence:
    # 11,100 - (4,810 - 60 - 250) = 6,600 inside the wait.
    got = ledger("overlap")
    assert _every_step(11_100) == got.counted("window_ns").tolist()
    assert _every_step(6_600) == got.counted("fence_wait_ns").tolist()
    assert _every_step(9_700) == got.counted("device_busy_ns").tolist()


def test_a_copy_stream_leaves_the_device_its_own_period(ledger):
    """The copies run beside the next step's kernels, and their event is long done when the next update asks for it."""
    # 4,700 + 100 + 4,700 + 100 + 300 and 100 to the next kernel = 10,000: the limit.
    got = ledger("overlap-copy-stream")
    assert _every_step(10_000) == got.counted("window_ns").tolist()
    # issue: two copy calls of 1,010, as in overlap
    assert _every_step(2_020) == got.counted("issue_ns").tolist()


def test_a_mapped_step_costs_the_device_what_publishing_takes(ledger):
    """The update runs 60 longer; no call starts a transfer, so the time of issue is unknown and not 0."""
    got = ledger("mapped")
    assert _every_step(10_060) == got.counted("window_ns").tolist()
    assert _every_step(9_760) == got.counted("device_busy_ns").tolist()
    assert got.issue_ns is None


def test_a_mapped_value_is_known_when_it_is_visible_and_polled(session):
    """80 after the update's end the number is visible, 40 later the poll has returned."""
    import dataclasses

    from fdprof.analysis.results import result_of

    run = dataclasses.replace(session.new_run("mapped"), blocks=(session.block("mapped", 0),))
    learn = result_of(run).fence.learn
    assert (STEPS, 120.0, 120.0) == (learn.count, learn.p50, learn.max)


def test_a_step_launched_as_a_graph_costs_the_host_one_launch(round_sim, make_session):
    """async: forward 10 + 90 instead of 10 + 50 + 2 x 20; the rest as above, but the device starts later."""
    # Queued: kernels and their gap of 40, 100 to the update, update 300, 100 to the next graph; 10,000 in all:
    #   kernels of (10,000 - 300 - 2 x 100 - 40) / 2 = 4,730.
    # Step: forward ends at 100, update at 180; first kernel at 10 + 700 = 710: 710-5,440, 5,480-10,210, update
    #   10,310-10,610; copies 11,110-11,260, 11,360-11,510; wake 250 -> 11,760; reads 200, save_output 810 -> 12,770.
    session = make_session(
        backend=round_sim,
        steps=STEPS,
        warmup=WARMUP,
        sequences=SEQUENCES,
        device_us=10.0,
        kernels=2,
        schedule_us=1.2,
        save_output_us=0.8,
        launch="graph",
    )
    assert (4730, 10_000) == (session.work.kernel_ns, session.work.step_ns)
    run = session.new_run("async")
    object.__setattr__(run, "blocks", (session.block("async", 0),))
    got = run_times_of(run)
    assert _every_step(12_770) == got.counted("window_ns").tolist()


def test_an_unfenced_step_is_fast_stale_and_caught(session):
    """Without a fence the host runs ahead, and every read of the budget's steps returns an earlier value."""
    # launches 180 + copy calls 2,020 + schedule 1,210 + reads 200 + save_output 810 = 4,420, against 11,100 of the
    # device: step k is read at 4,420 k + 3,410, long before its copy lands at 11,100 k + 11,210.
    block = session.block("unfenced", 0)
    assert _every_step(4_420) == np.diff(block.log.step_starts_ns)[WARMUP : WARMUP + STEPS].tolist()
    reads = block.log.reads
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
    # Kernels issued at 660 and 680, 1,000 each: 660-1,660 and 1,760-2,760; update issued at 760: 2,860-3,160.
    # The next forward brings 2 launches; 3 + 2 > 3, so it blocks until at most 1 is pending: the two kernels' launch
    # ends at 2,760.  Its own call takes 50 + 40 more.
    import dataclasses

    from fdprof.backends.protocol import LoopPlan
    from fdprof.backends.sim import SimBackend
    from fdprof.tokens import StreamSpec

    profile = build.round_profile()
    profile = dataclasses.replace(profile, card=dataclasses.replace(profile.card, launch_queue_depth=3))
    monkeypatch.setattr("fdprof.backends.sim.load_profile", lambda name: profile)
    backend = SimBackend(30)
    loop = backend.open_loop(
        LoopPlan(
            StreamSpec(seed=0, sequences=SEQUENCES, mean_length=8, last_step=9),
            (build.outputs(SEQUENCES),),
            max_steps=10,
            kernels=2,
            kernel_ns=np.full(10, 1000),
        )
    )
    loop.forward()
    loop.update()
    assert 180 == backend.clock_ns()
    loop.forward()
    assert 2_760 + 90 == backend.clock_ns()
