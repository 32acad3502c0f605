"""Several reports in one picture and one table; reports are equal by their content."""

import dataclasses
import warnings
from functools import partial

import matplotlib as mpl
import numpy as np
import pandas
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common import axes as drawing
from deeplimit.statistics.adaptive_sampling import InterimAnalysis

SETTINGS = {"depths": [8, 16, 32], "paths": 64}
NUMBERS = ["rate", "low", "high", "confidence", "verdict", "seconds"]


@pytest.fixture(scope="module")
def compared():
    return [dl.compare(dl.res1(3, name), **SETTINGS) for name in ("tanh", "relu")]


@pytest.fixture(scope="module")
def stable():
    return [dl.stability(dl.res3(8, exponent=beta), depths=[5, 10, 20], draws=40) for beta in (0.5, 0.9)]


@pytest.fixture(scope="module")
def in_law():
    return [dl.compare_laws(dl.res3(width), depths=[2, 4, 8], draws=200) for width in (4, 6)]


@pytest.fixture(scope="module")
def checked():
    problem = dl.testing.PROBLEMS["geometric Brownian motion"]
    settings = {"steps": (8, 16, 32, 64), "paths": 64}
    schemes = dl.EulerMaruyama(), dl.Milstein()
    return [dl.check_solver(scheme, problem.equation, problem.x, **settings) for scheme in schemes]


def given_axes():
    return Figure(figsize=(6, 4)).add_subplot()


def bars(axes):
    return [drawn[0] for drawn in axes.containers]


def test_every_report_has_its_colour_marker_and_order_in_one_legend(compared):
    axes = dl.plot(compared, labels=["a", "$b$"])
    told = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [text.split(", ")[0] for text in told] == ["a", "$b$"]
    for text, report in zip(told, compared, strict=True):
        low, high = report.rate_interval
        assert f"order {report.rate:.2f}" in text
        assert f"[{low:.2f}, {high:.2f}]" in text
    assert len({line.get_color() for line in bars(axes)}) == 2
    assert len({line.get_marker() for line in bars(axes)}) == 2
    np.testing.assert_array_equal(bars(axes)[1].get_ydata(), compared[1].errors)


def test_titles_and_names_of_the_users_axes_are_kept(compared):
    axes = given_axes()
    axes.set_title("Mine")
    axes.set_xlabel("layers", fontsize=17)
    assert dl.plot(compared, ax=axes) is axes
    assert (axes.get_title(), axes.get_xlabel(), axes.xaxis.label.get_fontsize()) == ("Mine", "layers", 17)
    assert axes.get_ylabel()


def test_ticks_of_the_users_small_axes_are_as_small_as_its_names(compared):
    axes = dl.plot(compared, ax=given_axes())
    name = axes.yaxis.label.get_fontsize()
    assert {text.get_fontsize() for text in (*axes.get_xticklabels(), *axes.get_yticklabels())} == {name}
    with mpl.rc_context({"xtick.labelsize": 13.0}):
        axes = dl.plot(compared, ax=given_axes())
        assert {text.get_fontsize() for text in axes.get_xticklabels()} == {13.0}


def test_a_control_on_independent_noise_has_another_limit_in_the_table(compared):
    network = dl.res1(3, "tanh")
    settings = {"depths": [8, 16, 32], "paths": 64}
    control = dl.compare(network, dl.Independent(network.limit()), **settings)
    right = dl.compare(network, **settings)
    cells = dl.table([right, control])["limit"].tolist()
    assert cells == [network.limit().equation, f"{network.limit().equation}, independent noise"]


def test_colours_markers_and_sizes_of_rcparams_are_used(compared):
    cycle = mpl.cycler(color=["#111111", "#222222"], marker=["*", "x"])
    with mpl.rc_context({"axes.prop_cycle": cycle, "legend.fontsize": 17.0}):
        axes = dl.plot(compared, ax=given_axes())
        assert axes.get_legend().get_texts()[0].get_fontsize() == 17
    assert [to_hex(line.get_color()) for line in bars(axes)] == ["#111111", "#222222"]
    assert [line.get_marker() for line in bars(axes)] == ["*", "x"]


def test_a_font_without_symbols_draws_every_letter_at_a_columns_width(compared):
    fonts = {"font.family": "cmr10", "mathtext.fontset": "cm", "axes.formatter.use_mathtext": True}
    with mpl.rc_context(fonts), warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = drawing.figure_of(dl.plot(compared, compact=True))
        figure.canvas.draw()
    assert tuple(figure.get_size_inches()) == drawing.COLUMN
    legend = figure.axes[0].get_legend()
    assert all("σ" not in text.get_text() for text in legend.get_texts())
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1


def test_the_legend_covers_no_value(compared):
    axes = dl.plot(compared, compact=True)
    drawing.figure_of(axes).canvas.draw()
    lowest = axes.get_legend().get_window_extent().y0
    tops = [axes.transData.transform((8, line.get_ydata().max()))[1] for line in bars(axes)]
    assert max(tops) < lowest


def test_signal_or_gradient_is_chosen_by_its_name(stable):
    gradient = dl.plot(stable, of="gradient")
    wanted = np.median(stable[0].gradient_change, axis=1)
    np.testing.assert_allclose(bars(gradient)[0].get_ydata(), wanted, rtol=0.1)
    assert dl.table(stable, of="gradient")["rate"].tolist() == [
        report.gradient_growth.exponent for report in stable
    ]


def test_a_table_has_rate_interval_verdict_and_seconds(compared, stable, in_law):
    frame = dl.table(compared, labels=["a", "b"])
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == [*NUMBERS, "network", "limit"]
    first = compared[0]
    row = (first.rate, *first.rate_interval, first.confidence, first.verdict, first.seconds)
    assert tuple(frame.loc["a"])[:6] == row
    assert list(dl.table(stable).columns) == [*NUMBERS, "network"]
    assert dl.table(in_law)["rate"].isna().all()
    assert list(dl.table(in_law).index) == ["d = 4", "d = 6"]


def test_solvers_stand_beside_each_other_by_their_schemes(checked):
    axes = dl.plot(checked)
    assert axes.get_xlabel() == "number of steps"
    np.testing.assert_array_equal(bars(axes)[1].get_xdata(), checked[1].steps[:-1])
    np.testing.assert_array_equal(bars(axes)[1].get_ydata(), checked[1].differences)
    frame = dl.table(checked)
    assert list(frame.columns) == [*NUMBERS, "scheme", "equation"]
    assert list(frame.index) == [report.scheme for report in checked]
    assert frame["rate"].tolist() == [report.rate for report in checked]


def test_orders_of_errors_stand_beside_each_other():
    steps = np.array([8, 16, 32, 64])
    paths = np.abs(np.random.default_rng(0).standard_normal((300, 1)))
    reports = [dl.order(paths / steps**order, steps) for order in (0.5, 1.0)]
    axes = dl.plot(reports, labels=["a", "b"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("number of steps", "root mean square error")
    np.testing.assert_array_equal(bars(axes)[0].get_ydata(), reports[0].errors)
    frame = dl.table(reports)
    assert list(frame.index) == ["1", "2"]
    np.testing.assert_allclose(frame["rate"], [0.5, 1.0], atol=0.05)


def test_tables_are_written_as_csv_and_latex(compared, tmp_path):
    frame = dl.table(compared, labels=["$\\alpha$", "b"], path=tmp_path / "t.csv")
    read = pandas.read_csv(tmp_path / "t.csv", index_col="label")
    assert read["low"].tolist() == frame["low"].tolist()
    dl.table(compared, labels=["$\\alpha$", "b"], path=tmp_path / "t.tex")
    lines = (tmp_path / "t.tex").read_text(encoding="utf-8").splitlines()
    assert lines[4].startswith("$\\alpha$ & ")
    assert f"{compared[0].rate:.2f} [" in lines[4]


def test_a_latex_table_keeps_its_rows_and_says_the_level(compared, tmp_path):
    dl.table(compared, labels=["5 % a & b", "50\\% c"], path=tmp_path / "t.tex")
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert "5 \\% a \\& b & " in text
    assert "50\\% c & " in text
    assert "95 \\%" in text.splitlines()[2]
    levels = [dataclasses.replace(compared[0], confidence=level) for level in (0.95, 0.975)]
    dl.table(levels, path=tmp_path / "t.tex")
    assert "97.5 \\%" in (tmp_path / "t.tex").read_text(encoding="utf-8").splitlines()[5]


def test_a_table_of_growths_has_the_level_of_their_intervals(stable):
    assert list(dl.table(stable)["confidence"]) == [0.95, 0.95]


def test_orders_stand_in_one_line_each_or_all_in_two(compared):
    plain = dl.plot(compared, labels=["$\\mathrm{a}$", "b"], compact=True)
    long = dl.plot(compared, labels=["a network of some name", "b"], compact=True)
    for axes, lines in ((plain, 1), (long, 2)):
        assert {len(text.get_text().splitlines()) for text in axes.get_legend().get_texts()} == {lines}


def test_labels_that_are_left_out_tell_the_reports_apart(compared):
    assert list(dl.table(compared).index) == ["σ = tanh", "σ = relu"]
    assert list(dl.table([compared[0]] * 2).index) == ["1", "2"]


@pytest.mark.parametrize("function", [dl.plot, dl.table])
def test_what_is_no_report_or_of_several_kinds_is_refused(compared, stable, function):
    assert_refused(lambda: function(compared[0]), TypeError, "reports", "CompareReport")
    assert_refused(lambda: function([]), ValueError, "reports", "none")
    assert_refused(lambda: function([compared[0], 3]), TypeError, "reports[1]", "3")
    mixed = [compared[0], stable[0]]
    assert_refused(lambda: function(mixed), ValueError, "reports", "StabilityReport")
    assert_refused(lambda: function(compared, ["a"]), ValueError, "labels", "1")
    assert_refused(lambda: function(compared, ["a", 2]), TypeError, "labels[1]", "2")
    assert_refused(lambda: function(stable, of="noise"), ValueError, "of", "noise")


def test_what_a_clock_read_makes_no_two_reports_unequal(compared, tmp_path):
    slower = dataclasses.replace(compared[0], seconds=compared[0].seconds + 1)
    assert slower == compared[0]
    assert hash(slower) == hash(compared[0])
    call = partial(dl.compare, dl.res1(2), depths=[2, 4, 8], paths=64, store=tmp_path / "runs.sqlite")
    first, resumed = call(), call()
    assert (first == resumed, first.seconds == resumed.seconds) == (True, False)


def test_seconds_in_parts_of_a_report_are_not_compared_either(compared):
    looks = (InterimAnalysis((2, 4), 8, "converges", "", (0.4, 0.6), 0.95, 1.0),)
    one = dataclasses.replace(compared[0], looks=looks)
    other = dataclasses.replace(compared[0], looks=(dataclasses.replace(looks[0], seconds=2.0),))
    assert one == other
    assert one != dataclasses.replace(one, looks=(dataclasses.replace(looks[0], paths=9),))


def test_a_depth_at_which_paths_were_lost_is_left_out(compared):
    errors, widths = np.array([0.2, 0.1, np.inf]), np.array([0.01, 0.01, np.inf])
    lost = dataclasses.replace(compared[0], errors=errors, standard_errors=widths)
    assert bars(dl.plot([lost]))[0].get_xdata().tolist() == [8, 16]


def test_reports_are_equal_by_content_and_nan_equals_nan(compared, in_law, tmp_path):
    lost = dataclasses.replace(compared[0], rate=np.nan, worst=np.array([np.nan, np.inf, 1.0]))
    for report in (compared[0], in_law[0], lost):
        report.save(tmp_path / "r.json")
        again = dl.load_report(tmp_path / "r.json")
        assert again == report
        assert hash(again) == hash(report)
    assert compared[0] != compared[1]
    assert dataclasses.replace(compared[0], errors=2 * compared[0].errors) != compared[0]
    assert compared[0] != "report"


@pytest.mark.parametrize(
    ("label", "written"),
    [("smooth_50%", r"smooth\_50\%"), ("$V_t$ & b", r"$V_t$ \& b"), (r"a\_b, #1", r"a\_b, \#1")],
)
def test_signs_of_latex_in_labels_stand_behind_a_backslash(label, written, tmp_path):
    report = dl.order(np.array([1.0, 0.5, 0.25]), [8, 16, 32])
    dl.table([report], labels=[label], path=tmp_path / "t.tex")
    assert written in (tmp_path / "t.tex").read_text(encoding="utf-8")
