# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.results: what a run comes to."""

import pytest

from fdprof import plugins
from fdprof.analysis.capture_result import analyze
from fdprof.analysis.results import result_of
from fdprof.analysis.steps import Choice
from fdprof.model import CallKind, WrongValue
from fdprof.run_capture import capture_of


def test_efficiency_is_the_limit_over_the_mean_counted_step(build):
    """Windows 100 (warm-up), 60 and 140 with a limit of 50: the mean is 100, the efficiency one half."""
    run = build.a_run(build.a_block(build.a_log([0, 100, 160], 300), warmup=1), device_work_ns=50)
    assert 0.5 == result_of(run).efficiency


def test_syncs_per_step_counts_blocking_calls_of_counted_steps(build):
    """Two waits and a blocking copy in two counted steps are 1.5 a step; the warm-up's wait is not counted."""
    kinds = CallKind
    calls = [
        (kinds.WAIT, 0, 1, 0),
        (kinds.WAIT, 10, 11, 1),
        (kinds.BLOCKING_COPY, 12, 13, 1),
        (kinds.WAIT, 20, 21, 2),
        (kinds.COPY, 22, 23, 2),
    ]
    run = build.a_run(build.a_block(build.a_log([0, 10, 20], 30, calls), warmup=1))
    assert 1.5 == result_of(run).syncs_per_step


def test_token_counts_add_up_over_blocks(build):
    """One wrong block makes the run wrong; the first wrong value is the first block's that has one."""
    wrong = WrongValue(step=1, sequence=0, tensor="sampled_token_ids", expected=9, got=8)
    good = build.a_block(build.a_log([0], 10), index=0, overrun_tokens=2)
    bad = build.a_block(build.a_log([0], 10), index=1, right=3, stale_reads=1, first_wrong=wrong)
    result = result_of(build.a_run(good, bad))
    assert (8, 7, 4, 1, 0, 2) == (
        result.values,
        result.values_right,
        result.reads,
        result.stale_reads,
        result.wrong_reads,
        result.overrun_tokens,
    )
    assert wrong == result.first_wrong
    assert not result.is_right
    assert 11 == result.clock_error_ns  # the larger of 10 and 11


def test_a_run_is_right_only_if_every_block_saw_the_stop(build):
    """All values right and one stop not seen is not right."""
    blocks = [build.a_block(build.a_log([0], 10), stop_seen=seen) for seen in (True, False)]
    assert not result_of(build.a_run(*blocks)).is_right
    assert result_of(build.a_run(blocks[0])).is_right


@pytest.mark.parametrize(("launch", "calls", "code"), [("kernels", 23, "launch-bound"), ("graph", 4, "host-bound")])
def test_what_a_run_gives_the_device_is_counted_as_its_launches_and_copies(make_session, launch, calls, code):
    """A forward pass of 20 kernels or one graph, the update's kernel and two copies; `forward` is one call of fdprof's.

    With a graph the host's own code is what is left, and no advice to make a graph.
    """
    run = make_session(kernels=20, device_us=50.0, launch=launch).run("overlap", blocks=1)
    (finding,) = [each for each in result_of(run).findings if each.code.value.endswith(("launch-bound", "host-bound"))]
    assert (code, calls) == (finding.code.value, finding.evidence["work_calls_per_step"])
    assert f"({calls}.0 launches and copies a step)" in finding.text
    assert ("CUDA graph" in finding.advice) == (launch == "kernels")


@pytest.mark.parametrize("mode", ["async", "sync-pinned", "overlap", "overlap-copy-stream"])
@pytest.mark.parametrize("scenario", ["stop_flag", "token_count", "logprobs", "hidden_sync"])
def test_a_run_read_as_a_capture_waits_for_each_tensor_as_long_as_the_run_says(make_session, scenario, mode):
    """By size, for a capture does not know tensors; a copy to pageable memory, inside an op, is its own wait there."""
    result = result_of(make_session(scenario, steps=40, warmup=5).run(mode, blocks=2))
    by_run = {(each.size_bytes, round(each.wait_ns)) for each in result.transfers if each.memory != "pageable"}
    by_capture = {(each.size_bytes, round(each.wait_ns)) for each in result.facts.transfers if each.blocking_share == 0}
    assert by_run
    assert by_run == by_capture
    assert all(each.wait_after_ns >= 0 for each in result.facts.transfers if each.wait_after_ns is not None)


@pytest.mark.parametrize("device_us", [1000.0, 50.0])
@pytest.mark.parametrize("mode", ["sync", "async", "overlap"])
def test_a_run_has_one_limit_and_promises_no_more_than_its_step_is_above_it(make_session, mode, device_us):
    """Read as a capture, too; where the host works 312 of the shorter loop's 316 µs, a wait could give 5 µs at most."""
    run = make_session(steps=40, warmup=5, device_us=device_us).run(mode, blocks=1)
    result = result_of(run)
    mean = result.summaries["window_ns"].mean
    capture = analyze(capture_of(run), "a run", Choice(), first=5, last=45)
    assert run.limit_ns == result.facts.limit_ns == capture.facts.limit_ns
    assert result.efficiency == pytest.approx(capture.facts.efficiency)
    assert 0 <= result.facts.gain_ns <= mean - run.limit_ns
    assert all((each.cost_ns_per_step or 0) <= mean - run.limit_ns for each in result.findings)
    if (mode, device_us) == ("overlap", 50.0):
        assert result.facts.gain_ns < 5_000 < mean - run.limit_ns


def test_a_fence_that_costs_nothing_does_not_say_how_soon_the_host_came_to_the_other(make_session):
    """token_count has two fences a step; the host comes to the one in which it waits after 120 µs of scheduling."""
    run = make_session("token_count", steps=40, warmup=5).run("async", blocks=1)
    (finding,) = [each for each in result_of(run).findings if each.code.value == "fence-straight-after-copy"]
    assert 120_000 <= finding.evidence["after_ns"] < 130_000


def test_a_stream_synchronised_straight_after_its_pinned_copies_is_what_to_mend_first(make_session):
    """What #6176 replaced; the sentences say so."""
    result = result_of(make_session(steps=40, warmup=5).run("sync-pinned", blocks=1))
    assert "fence-straight-after-copy" in [each.code.value for each in result.findings]
    assert result.headline[2].startswith("First, the fence: launch the next step first")


def test_a_run_has_the_sentences_of_a_capture_of_its_steps(cases):
    """sync waits in its copies: what to do first is about them."""
    first, where, advice = cases["run"].headline
    assert first.startswith("Host and device take turns")
    assert where.startswith("The host is blocked")
    assert "2.00 copies a step to pageable host memory" in advice


def test_wrong_values_have_no_sentences(cases):
    """Steps that skip a wait are no steps, so nothing follows from their times."""
    assert () == cases["run_wrong"].headline


@pytest.mark.parametrize("mode", plugins.names("modes"))
def test_a_run_and_its_ledger_know_alike_whether_the_host_was_blocked(cases, mode):
    """`unfenced` has no call of which it is known that it blocks, so its launches may have waited unseen."""
    result = result_of(cases.run(mode))
    known = mode != "unfenced"
    assert known == (result.times.host_blocked_ns is not None)
    for name in ("host_blocked_ns", "harmful_wait_ns", "harmless_wait_ns"):
        assert known == (getattr(result.facts.ledger, name) is not None)
        assert known == (result.summaries[name].mean is not None)
    assert all(known == (step.host_blocked_ns is not None) for step in result.worst)


def test_a_tracer_that_sees_no_wait_has_seen_that_there_was_none(build):
    """It sees every call: 0, and not unknown."""
    capture = build.a_loop(3, 100, [("cudaLaunchKernel", 1, 3)], [("kernel", 5, 50, 0)])
    ledger = analyze(capture, "a capture", Choice()).facts.ledger
    assert [0, 0, 0] == ledger.host_blocked_ns.tolist() == ledger.harmful_wait_ns.tolist()
