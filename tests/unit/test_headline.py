"""fdprof.analysis.headline: the three sentences at the top say what the step is bound by, or that they cannot."""

# ruff: noqa: SIM300
import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.facts import Bound
from fdprof.analysis.steps import Choice

US = 1_000


def said(capture):
    """Return the bound and the three sentences."""
    result = analyze(capture, "a capture", Choice())
    return result.facts.bound, result.headline


def test_host_and_device_that_take_turns_are_told_how_much_could_be_gained(build):
    """huggingface/blog#3372: the device works 76 of 100 ms, then the host 24: idle 24.0 %, and as much to gain."""
    calls = [("cudaLaunchKernel", 0, 0), ("cudaStreamSynchronize", 0, 76)]
    bound, (answer, where, advice) = said(build.a_loop(3, 100, calls, [("kernel", 0, 76, 0)], unit=1_000_000))
    assert Bound.WAITS is bound
    assert (
        "Host and device take turns: of 100,000.0 µs a step the device idles 24,000.0 µs (24.0 %); with no wait at all "
        "the step would be at most 24,000.0 µs shorter (24.0 %)." == answer
    )
    assert (
        "The host is blocked 76,000.0 µs a step, 0.0 µs of it with an idle device; the other idle is mostly "
        "24,000.0 µs host code (most in 'decode_step')." == where
    )
    assert advice.startswith("First, cudaStreamSynchronize (outside all ranges): ")


def test_the_first_advice_is_that_of_the_dearest_wait(build):
    """A pageable copy that blocks: its advice."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpy", 10, 510)]
    work = [("kernel", 8, 500, 0), ("D2H pageable 4", 502, 504, 1)]
    _, (_, _, advice) = said(build.a_loop(2, 1_000, calls, work))
    assert advice.startswith("First, 1.00 copies a step to pageable host memory (4 B (outside all ranges)): copy with")


def test_a_step_may_make_up_for_another_so_the_limit_is_that_of_the_means(build):
    """Step 0: the host works 100 µs, the device 10; step 1: the device 100, the host waits 90 of them.

    Busy 55, host 55 of 100 on average: a host that runs ahead could take 55, though each step alone takes 100.
    """
    calls = [("cudaLaunchKernel", 0, 1), ("cudaLaunchKernel", 99, 100), ("cudaStreamSynchronize", 110, 200)]
    work = [("kernel", 1, 11, 0), ("kernel", 100, 200, 1)]
    ranges = [("decode_step", 0, 100), ("decode_step", 100, 200)]
    facts = analyze(build.a_capture(calls, work, ranges, unit=US), "a capture", Choice()).facts
    assert (55.0 * US, 45.0 * US) == (facts.limit_ns, facts.gain_ns)


def test_a_range_named_for_waiting_without_a_wait_may_be_a_poll_and_is_no_work(build):
    """Busy 489 of 500 µs; `fence` 100-480 without a call: the device's 489 are the limit, and not the host's 500."""
    loop = (3, 500, [("cudaLaunchKernel", 0, 5)], [("kernel", 8, 497, 0)], [("fence", 100, 480)])
    result = analyze(build.a_loop(*loop), "a capture", Choice())
    assert (380.0 * US, 489.0 * US) == (result.facts.unseen_wait_ns, result.facts.limit_ns)
    assert result.limits[-1].startswith("380.0 µs a step lie in ranges named for waiting that hold no waiting call")
    asked = [("cudaLaunchKernel", 0, 5), ("cudaEventQuery", 470, 475)]
    facts = analyze(build.a_loop(3, 500, asked, *loop[3:]), "a capture", Choice()).facts
    assert (0.0, 500.0 * US) == (facts.unseen_wait_ns, facts.limit_ns)


def test_a_host_whose_calls_return_behind_their_work_is_not_said_to_run_ahead(build):
    """Each step ends with an upload that outlasts its call and the next launch's begin: run-ahead by the rule.

    But the host sat in a copy to the host for 500 µs, whose call returns 490 behind its work's start: no lead at all.
    """
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpy", 10, 510), ("cudaMemcpyAsync", 980, 990)]
    work = [("kernel", 8, 18, 0), ("D2H pageable 4", 20, 508, 1), ("H2D pageable 4", 985, 1_002, 2)]
    facts = analyze(build.a_loop(3, 1_000, calls, work), "a capture", Choice()).facts
    assert facts.run_ahead_share > 0.5 and facts.launch_lead_ns < 0
    _, (answer, *_) = said(build.a_loop(3, 1_000, calls, work))
    assert answer.startswith("Host and device take turns")


def test_gaps_between_queued_work_are_the_devices_own(build):
    """20 kernels of 46 µs, 4 µs apart, all launched one step ahead: 920 of 1,000 busy, 80 idle, and the host waits 900.

    No wait less could fill those gaps; behind the last kernel nothing was queued, which leaves 4 / 3 µs to gain.
    """
    calls = [("cudaLaunchKernel", n, n + 1) for n in range(60)] + [("cudaStreamSynchronize", 100, 3_000)]
    work = [("kernel", 100 + 50 * n, 146 + 50 * n, n) for n in range(60)]
    ranges = [("decode_step", 100 + 1_000 * n, 1_100 + 1_000 * n) for n in range(3)]
    bound, (answer, what, _) = said(build.a_capture(calls, work, ranges, unit=US))
    assert Bound.DEVICE is bound
    assert "at most 1.3 µs shorter" in answer
    assert "busy 920.0 of 1,000.0 µs a step (92.0 %), and idle 78.7 µs between work that was queued already" in what


def test_a_host_as_busy_as_the_device_is_said(build):
    """The device works 960 of 1,000 µs and the host 950: shortening one alone gains next to nothing."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 60)]
    _, (_, what, advice) = said(build.a_loop(3, 1_000, calls, [("kernel", 8, 968, 0)]))
    assert what.endswith("(96.0 %), the host nearly as long (950.0 µs outside waits).")
    assert advice.endswith("; and at the host, or it takes over at once.")


def test_a_device_that_is_busy_nearly_all_the_step_binds_it(build):
    """960 of 1,000 µs busy; the host waits for it, and no order of copies makes that shorter."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 970)]
    bound, (answer, what, advice) = said(build.a_loop(3, 1_000, calls, [("kernel", 8, 968, 0)]))
    assert Bound.DEVICE is bound
    assert (
        "Transfers are not this loop's problem: with no wait at all a step of 1,000.0 µs would be at most 40.0 µs "
        "shorter (4.0 %)." == answer
    )
    assert "It is device-bound: the device is busy 960.0 of 1,000.0 µs a step (96.0 %)." == what
    assert advice.startswith("What helps: look at the kernels")


def test_a_host_that_launches_all_the_step_is_launch_bound(build):
    """20 launches of 45 µs and kernels of 5 µs: fencing will not help, fewer launches will."""
    calls = [("cudaLaunchKernel", 50 * n, 50 * n + 45) for n in range(20)]
    work = [("kernel", 50 * n + 45, 50 * n + 50, n) for n in range(20)]
    bound, (answer, what, advice) = said(build.a_loop(3, 1_000, calls, work))
    assert Bound.HOST is bound
    assert answer.startswith("Transfers are not this loop's problem")
    assert what.startswith("It is launch-bound: the host works 1,000.0 of 1,000.0 µs a step outside waits, 900.0 µs")
    assert "inside CUDA calls (20.0 launches and copies a step)" in what
    assert "CUDA graph" in advice and "fencing the copies will not help" in advice


def test_a_host_whose_own_code_fills_the_step_is_host_bound_and_its_range_is_named(build):
    """One launch and 950 µs of `schedule`."""
    calls = [("cudaLaunchKernel", 0, 5)]
    ranges = [("schedule", 20, 970)]
    bound, (answer, what, advice) = said(build.a_loop(3, 1_000, calls, [("kernel", 8, 60, 0)], ranges))
    assert Bound.HOST is bound
    assert answer.startswith("Transfers are not this loop's problem")
    assert what.startswith("It is host-bound: the host works 1,000.0 of 1,000.0 µs a step outside waits, 5.0 µs")
    assert "first in 'schedule'" in advice


@pytest.mark.parametrize(("wait_us", "bound"), [(48, Bound.HOST), (52, Bound.WAITS)])
def test_less_than_a_twentieth_of_the_step_is_not_called_the_problem(build, wait_us, bound):
    """The wait is all that could be gained: 4.8 % of the step is not worth it, 5.2 % is."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 10 + wait_us)]
    assert bound is said(build.a_loop(3, 1_000, calls, [("kernel", 8, 9, 0)]))[0]


def cannot(capture):
    bound, (answer, what, advice) = said(capture)
    assert Bound.UNKNOWN is bound
    assert answer.startswith("This capture cannot say what transfers cost a step: ")
    return answer, what, advice


def test_without_device_rows_it_cannot_say_and_tells_what_it_does_show(build):
    """vllm#5132: no word of an idle device; the host is blocked 980 of 2,000 µs."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 500)]
    answer, what, advice = cannot(build.a_loop(2, 1_000, calls))
    assert "no device activity" in answer
    assert "What it does show: the host is blocked 980.0 of 2,000.0 µs, in 2 calls." == what
    assert "trace the process that launches from its start" in advice


def test_a_cut_capture_cannot_say(build):
    """The host waits 2,000 of 3,000 µs for work that has no rows: not "97 % idle"."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 2_100)]
    answer, _, advice = cannot(build.a_loop(1, 3_000, calls, [("kernel", 10, 100, 0)]))
    assert "2,000.0 µs a step (66.7 %) the host waited for device work that is not in this capture" in answer
    assert "capture whole steps" in advice


def test_a_step_whose_work_runs_behind_it_cannot_say(build):
    """A loop that runs ahead, cut to one step."""
    capture = build.a_capture(
        [("cudaGraphLaunch", 0, 5)], [("kernel", 200, 900, 0)], [("decode_step", 0, 100)], unit=US
    )
    assert "runs outside all of them" in cannot(capture)[0]


def test_a_capture_as_one_window_cannot_say(build):
    """No markers and nothing that repeats: there is no step."""
    capture = build.a_capture(
        [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 6, 90)], [("kernel", 7, 80, 0)], unit=US
    )
    answer, _, advice = cannot(capture)
    assert "taking the whole capture as one window" in answer
    assert "--step-range" in advice
