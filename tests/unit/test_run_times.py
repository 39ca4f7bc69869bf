# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.run_times on logs of two or three steps made by hand."""

from fdprof.analysis.run_times import COUNTED, OVERRUN, WARMUP, counted_windows, run_times_of
from fdprof.model import CallKind

WAIT, COPY, BLOCKING = CallKind.WAIT, CallKind.COPY, CallKind.BLOCKING_COPY


def test_a_window_runs_to_the_next_start_and_the_last_to_its_own_end(build):
    """Starts 0, 100, 250 and a last end at 300 make windows of 100, 150 and 50."""
    got = run_times_of(build.a_run(build.a_block(build.a_log([0, 100, 250], 300))))
    assert [100, 150, 50] == got.window_ns.tolist()


def test_device_busy_is_the_union_of_kernels_clipped_to_windows(build):
    """A kernel across a step's start is split there, and overlapping kernels count once."""
    # Windows 0-100 and 100-200.  Union of 80-120, 110-130, 190-230: 80-130 and 190-230.
    # First window 80-100 = 20; second 100-130 + 190-200 = 40.
    log = build.a_log([0, 100], 200, kernels=[(80, 120), (110, 130), (190, 230)])
    got = run_times_of(build.a_run(build.a_block(log)))
    assert [20, 40] == got.device_busy_ns.tolist()
    assert [80, 60] == got.device_idle_ns.tolist()


def test_calls_add_up_by_kind_in_the_step_they_started_in(build):
    """Issue, fence wait and host blocked of two steps."""
    calls = [
        (COPY, 0, 5, 0),
        (COPY, 5, 12, 0),
        (CallKind.RECORD, 12, 30, 0),
        (WAIT, 30, 95, 0),
        (CallKind.LAUNCH, 95, 99, 0),
        (BLOCKING, 100, 140, 1),
        (WAIT, 150, 160, 1),
    ]
    got = run_times_of(build.a_run(build.a_block(build.a_log([0, 100], 200, calls))))
    assert [12, 40] == got.issue_ns.tolist()  # 5 + 7; the blocking copy's 40
    assert [65, 10] == got.fence_wait_ns.tolist()
    assert [65, 50] == got.host_blocked_ns.tolist()  # waits and blocking copies: 10 + 40


def test_host_work_is_the_time_in_host_ranges(build):
    """`host` with or without a detail counts in the step it started in; other ranges, `hosting` too, do not."""
    # Step 0: 18 + 7; step 1: 5.
    ranges = [
        ("host:schedule", 10, 28, 0),
        ("fence", 30, 50, 0),
        ("host:save_output", 50, 57, 0),
        ("host", 100, 105, 1),
        ("hosting", 110, 120, 1),
    ]
    got = run_times_of(build.a_run(build.a_block(build.a_log([0, 100], 200, ranges=ranges))))
    assert [25, 5] == got.host_work_ns.tolist()


def test_other_host_time_is_what_no_other_column_has(build):
    """A call inside a range of host work counts once; reads and records belong to the rest."""
    # Step 0, 0-100: launch 0-10, copy 10-15, host 20-50 with a wait 40-60 that reaches beyond it, read 60-70.
    # Covered: 0-15 and 20-60 = 55; the rest is 45.  Step 1, 100-200: a record of 30 only: all 100 are rest.
    calls = [
        (CallKind.LAUNCH, 0, 10, 0),
        (COPY, 10, 15, 0),
        (WAIT, 40, 60, 0),
        (CallKind.READ, 60, 70, 0),
        (CallKind.RECORD, 110, 140, 1),
    ]
    got = run_times_of(build.a_run(build.a_block(build.a_log([0, 100], 200, calls, ranges=[("host", 20, 50, 0)]))))
    assert [45, 100] == got.other_host_ns.tolist()


def test_a_run_that_starts_no_transfer_has_no_issue_and_not_zero(build):
    """What the kernel writes by itself is started by no call."""
    got = run_times_of(build.a_run(build.a_block(build.a_log([0], 100, [(WAIT, 0, 40, 0)]))))
    assert got.issue_ns is None


def test_a_run_without_waits_has_no_fence_wait_and_not_zero(build):
    """Blocking copies are no fence: in sync the column is None."""
    got = run_times_of(build.a_run(build.a_block(build.a_log([0], 100, [(BLOCKING, 0, 40, 0)]))))
    assert got.fence_wait_ns is None
    assert got.counted("fence_wait_ns") is None
    assert [40] == got.host_blocked_ns.tolist()


def test_warm_up_and_overrun_are_marked_and_not_counted(build):
    """Of five steps, one warm-up and two counted, the last two are overrun."""
    # Starts 0, 10, 30, 60, 100 and end 150: windows 10, 20, 30, 40, 50.
    log = build.a_log([0, 10, 30, 60, 100], 150)
    got = run_times_of(build.a_run(build.a_block(log, warmup=1, steps=2)))
    assert [WARMUP, COUNTED, COUNTED, OVERRUN, OVERRUN] == got.part.tolist()
    assert [20, 30] == got.counted("window_ns").tolist()
    assert [10, 20, 30, 40, 50] == got.window_ns.tolist()


def test_blocks_follow_one_another_with_their_index(build):
    """Two blocks of two steps are four rows; the last window of a block does not reach into the next."""
    first = build.a_block(build.a_log([0, 10], 25), index=0)
    second = build.a_block(build.a_log([1000, 1010], 1030), index=1)
    got = run_times_of(build.a_run(first, second))
    assert [0, 0, 1, 1] == got.block.tolist()
    assert [0, 1, 0, 1] == got.step.tolist()
    assert [10, 15, 10, 20] == got.window_ns.tolist()


def test_stale_reads_fall_on_the_step_of_the_read(build):
    """Rows are as in READS: two stale reads in step 1, and a wrong one is none."""
    reads = [(0, 0, 0, 3, 0, 0, 0), (1, 0, 0, 1, 2, 0, 0), (1, 0, 1, 0, 1, 0, 0), (2, 1, 0, 2, 0, 1, 0)]
    got = run_times_of(build.a_run(build.a_block(build.a_log([0, 10, 20], 30, reads=reads))))
    assert [0, 2, 0] == got.reads_stale.tolist()


def test_counted_windows_leave_out_warm_up_and_overrun(build):
    """Steps at 0, 10, 25, 45 and 70 to 100: one of warm-up, two counted, two of overrun."""
    block = build.a_block(build.a_log([0, 10, 25, 45, 70], 100), warmup=1, steps=2)
    assert [15, 20] == counted_windows(block).tolist()
