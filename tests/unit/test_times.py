# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.times: what each distribution draws, and what an option of times may not be."""

import math

import numpy as np
import pytest

from fdprof.errors import UsageError
from fdprof.times import Times, parse_times

COUNT = 200_000
MEAN_NS = 1_000_000  # so large that rounding to whole ns is lost in the tolerances
SIGMAS = 5


def test_fixed_times_are_all_the_mean():
    """Three draws of a mean of 70 are 70, whatever the seed."""
    assert [70, 70, 70] == Times("fixed").draw(70, 3, seed=1).tolist()


def test_fixed_is_what_the_word_fixed_asks_for():
    """The word says it all: no colon."""
    assert Times("fixed") == parse_times("fixed", "--device-times")


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
@pytest.mark.parametrize(("text", "variation"), [("0", 0.0), ("0.25", 0.25), ("10", 10.0)])
def test_the_variation_follows_the_colon(kind, text, variation):
    """Both bounds, 0 and 10, are allowed."""
    assert Times(kind, variation) == parse_times(f"{kind}:{text}", "--device-times")


def test_normal_times_have_the_mean_and_the_variation():
    """With a variation of 0.2 the cut at 0 lies five deviations off and takes away nothing that counts."""
    drawn = Times("normal", 0.2).draw(MEAN_NS, COUNT, seed=3)
    # The mean of n draws deviates by 0.2 / sqrt(n) of the mean, their deviation by 1 / sqrt(2 n) of itself.
    assert math.isclose(MEAN_NS, drawn.mean(), rel_tol=SIGMAS * 0.2 / math.sqrt(COUNT))
    assert math.isclose(0.2, drawn.std() / drawn.mean(), rel_tol=SIGMAS * (1 + 0.2) / math.sqrt(COUNT))


def test_normal_times_are_cut_at_zero_which_raises_the_mean():
    """With a variation of 10, nearly every second draw is 0, and none is below."""
    drawn = Times("normal", 10.0).draw(MEAN_NS, COUNT, seed=3)
    assert 0 == drawn.min()
    # P(N(1, 10) < 0) = Phi(-0.1) = 0.4602, of deviation 0.5 / sqrt(n).
    assert math.isclose(0.4602, (drawn == 0).mean(), abs_tol=SIGMAS * 0.5 / math.sqrt(COUNT))
    # E max(X, 0) = m Phi(0.1) + 10 m phi(0.1) = 0.5398 m + 3.9695 m; E X² of those = 101 m² 0.5398 + 10 m² 0.397
    # = 58.49 m², so that the deviation is sqrt(58.49 - 4.509²) m = 6.18 m.
    assert math.isclose(4.509 * MEAN_NS, drawn.mean(), abs_tol=SIGMAS * 6.18 * MEAN_NS / math.sqrt(COUNT))


def test_lognormal_times_have_the_mean_and_the_variation():
    """The mean is the one asked for, not the median; the variation is deviation over mean."""
    drawn = Times("lognormal", 0.5).draw(MEAN_NS, COUNT, seed=3)
    assert math.isclose(MEAN_NS, drawn.mean(), rel_tol=SIGMAS * 0.5 / math.sqrt(COUNT))
    # w = 1 + 0.5² = 1.25; kurtosis w⁴ + 2 w³ + 3 w² - 3 = 8.04; the deviation of n draws then deviates by
    # sqrt((8.04 - 1) / 4 n) = 1.33 / sqrt(n) of itself, and the mean that divides it by 0.5 / sqrt(n).
    assert math.isclose(0.5, drawn.std() / drawn.mean(), rel_tol=SIGMAS * (1.33 + 0.5) / math.sqrt(COUNT))


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_no_variation_is_the_mean_itself(kind):
    """normal:0 and lognormal:0 draw what fixed does."""
    assert [70, 70] == Times(kind, 0.0).draw(70, 2, seed=1).tolist()


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_the_same_seed_draws_the_same_times(kind):
    """The same seed and no other; a longer draw begins like a shorter one."""
    times = Times(kind, 0.5)
    first = times.draw(MEAN_NS, 50, seed=7).tolist()
    assert first == times.draw(MEAN_NS, 50, seed=7).tolist()
    assert first == times.draw(MEAN_NS, 80, seed=7)[:50].tolist()
    assert first != times.draw(MEAN_NS, 50, seed=8).tolist()


@pytest.mark.parametrize("kind", ["fixed", "normal", "lognormal"])
def test_times_are_whole_nanoseconds(kind):
    """int64, as all times inside."""
    assert np.int64 == Times(kind, 0.5).draw(70, 3, seed=1).dtype


def test_recorded_times_come_in_their_order_and_again_from_the_start():
    """1, 2.5 and 0.0004 µs are 1000, 2500 and 0 ns; neither mean nor seed plays a part."""
    times = Times("recorded", recorded_us=(1.0, 2.5, 0.0004))
    assert [1000, 2500, 0, 1000, 2500, 0, 1000] == times.draw(70, 7, seed=1).tolist()
    assert [1000, 2500] == times.draw(9, 2, seed=2).tolist()


def test_comments_and_blank_lines_of_a_file_are_skipped(tmp_path):
    """Spaces around a time do not matter, nor does a missing last line end."""
    path = tmp_path / "times.txt"
    path.write_text("# µs a step\n\n 1000.5 \n   \n  # and a tail\n0\n2e3", encoding="utf-8")
    assert Times("recorded", recorded_us=(1000.5, 0.0, 2000.0)) == parse_times(str(path), "--host-times")


def test_both_bounds_of_a_recorded_time_are_allowed(tmp_path):
    """0 and 10 s."""
    path = tmp_path / "times.txt"
    path.write_text("0\n10000000\n")
    assert (0.0, 10_000_000.0) == parse_times(str(path), "--host-times").recorded_us


@pytest.mark.parametrize("text", ["uniform", "normal", "lognormal", "fixed:1", "Fixed", "uniform:0.5", ""])
def test_a_word_that_is_no_distribution_and_no_file_is_refused(text, tmp_path, monkeypatch):
    """The option is named, and the hint lists the forms."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError, match=r"^--device-times: .* is no distribution, and no file that can be read$"
    ) as got:
        parse_times(text, "--device-times")
    assert "normal:CV" in got.value.hint


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
@pytest.mark.parametrize("variation", ["-0.1", "10.1", "nan", "inf", "", "x", "0.1:2"])
def test_a_variation_out_of_range_is_refused(kind, variation):
    """The message names the option, what was given and the range."""
    with pytest.raises(UsageError) as got:
        parse_times(f"{kind}:{variation}", "--host-times")
    assert f"--host-times is '{kind}:{variation}', expected {kind}:0 to {kind}:10" == str(got.value)


@pytest.mark.parametrize("entry", ["-1", "nan", "inf", "10000001", "1,5", "12 13", "0x10", "1 # one"])
def test_a_line_that_is_no_time_is_refused_with_its_number(entry, tmp_path):
    """The comment counts as a line: the bad one is the third of the file."""
    path = tmp_path / "times.txt"
    path.write_text(f"# µs\n5\n{entry}\n", encoding="utf-8")
    with pytest.raises(UsageError) as got:
        parse_times(str(path), "--host-times")
    assert f"--host-times: {path}, line 3: {entry!r}, expected a time of 0 to 10,000,000 µs" == str(got.value)


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n"])
def test_a_file_without_times_is_refused(content, tmp_path):
    """Empty, blank, or comments only."""
    path = tmp_path / "times.txt"
    path.write_text(content)
    with pytest.raises(UsageError) as got:
        parse_times(str(path), "--host-times")
    assert f"--host-times: {path} holds no times" == str(got.value)


def test_a_binary_file_is_refused(tmp_path):
    """Bytes that are no text in UTF-8."""
    path = tmp_path / "times.bin"
    path.write_bytes(b"\x80\x81\xff")
    with pytest.raises(UsageError, match=r"^--host-times: .*no file that can be read"):
        parse_times(str(path), "--host-times")


def test_a_folder_is_refused(tmp_path):
    """It is there, but no file."""
    with pytest.raises(UsageError, match=r"^--host-times: .* is no regular file$"):
        parse_times(str(tmp_path), "--host-times")


def test_more_times_than_are_kept_are_refused(tmp_path, monkeypatch):
    """Two may be kept here: two pass, three do not."""
    monkeypatch.setattr("fdprof.times._MAX_RECORDED", 2)
    path = tmp_path / "times.txt"
    path.write_text("1\n2\n# end\n")
    assert (1.0, 2.0) == parse_times(str(path), "--host-times").recorded_us
    path.write_text("1\n2\n3\n")
    with pytest.raises(UsageError, match=r"^--host-times: .* has more than 2 times$"):
        parse_times(str(path), "--host-times")
