"""The result of diagnosing one network: what each of its objects says about depth, and what layers do."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.fields import Interval, Seconds
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import LayersVerdict
from deeplimit.trained.diagnosis import correlations, wording
from deeplimit.trained.diagnosis.influence import Influence
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.merging import Merging, merging
from deeplimit.trained.diagnosis.one_network import LayerStatistics
from deeplimit.trained.diagnosis.stacks import WEIGHTS
from deeplimit.trained.diagnosis.undecided import Known, known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Word = LayersVerdict
LEVEL = 0.01
"""Probability of calling any order real where there is none, over all objects of a network."""
DECAYING = "decaying"
"""What correlations are called where the order is real."""
UNDECIDED = "cannot tell"
"""What they are called where neither an order nor its absence is seen."""
UNTRAINED, SHUFFLED = "untrained", "shuffled"
"""The two nulls: networks as the factory makes them, and trained layers in a random order."""
NOISY = 0.1
"""From this share of its square on, noise is a third of a layer's size, and a trend's headline names it."""
SHOWN = 6
"""So many things that were left out, or layers that stand out, are named in a text."""


@final
@dataclass(frozen=True, eq=False)
class Examined:
    """One object over the layers of a network.

    Attributes:
        name: of the weights or the branch.
        what: "weights", or the probe on which a branch was run: "function of noise", "function of states".
        depth: number of layers.
        entries: numbers that one layer has.
        verdict, reason: what the layers are as a function of depth: "copies" of each other, "independent",
            a "common trend" without order, a "smooth trend" with noise, "rough", or "cannot tell".
        correlation: of layers over their distance: "none", "constant", "decaying", or "cannot tell".
        likeness: mean cosine of neighbouring layers.
        p_value: probability of neighbours so like, or so unlike, if the order of layers were random.
        hurst, hurst_interval: roughness about their mean as if the layers were fractional noise; 0.5 for
            independent ones.
        noise, noise_interval: share of noise, as if the layers were a trend with independent noise; None
            where the share has no interval.
        length: layers over which the trend changes by its size; None where no trend is seen.
        effective_entries: independent entries that would scatter as these do.
        merging: errors of replacing layers by their neighbours.
    """

    name: str
    what: str
    depth: int
    entries: int
    verdict: Word
    reason: str
    correlation: str
    likeness: float
    p_value: float
    hurst: float
    hurst_interval: Interval
    noise: float
    noise_interval: Interval | None
    length: float | None
    effective_entries: float
    merging: Merging

    @classmethod
    def of(cls, name: str, gram: LayerGram, what: str, seed: int, count: int = 1) -> Examined:
        """Return what one of `count` objects says; raise ValueError where it has no statistics."""
        found = LayerStatistics.of_products(name, gram, seed, level=min(correlations.LEVEL, LEVEL / count))
        return cls(
            name=found.name,
            what=what,
            depth=found.depth,
            entries=found.entries,
            verdict=found.verdict.code,
            reason=wording.reason(found.verdict),
            correlation=found.correlation.code,
            likeness=found.order.likeness,
            p_value=found.order.p_value,
            hurst=found.about_mean.hurst,
            hurst_interval=found.about_mean.interval,
            noise=found.noise.noise,
            noise_interval=found.noise.noise_interval,
            length=found.noise.length,
            effective_entries=found.about_mean.effective_entries,
            merging=merging(gram),
        )

    @property
    def full_name(self) -> str:
        """The object's name and what it is."""
        return f"{self.name} ({self.what})"


@final
@dataclass(frozen=True, eq=False)
class NetworkDiagnosis(Report):
    """What `diagnose` found in one trained network.

    Attributes:
        model: class of the module, or path of the file.
        objects: what can be compared over depth, each with its statistics.
        streams: influence of layers on each residual stream; empty for weights without a module.
        left_out: reason, by name, why a tensor or branch is not among the objects.
        made_up: whether the module was run on a batch that was made up.
        seconds, versions: how it was run.
        replicates: how many networks were pooled.
        untrained: the same objects of untrained networks; empty where none are given.
        shuffled: the objects with the layers of each network in a random order; empty without a null.
        reservations: what to know before trusting the numbers, beside what is left out.
    """

    kind = "network-diagnosis"
    no_paths = "weights are given, so that nothing is drawn. Call diagnose on the network again"

    model: str
    objects: tuple[Examined, ...]
    streams: tuple[Influence, ...]
    left_out: dict[str, str]
    made_up: bool
    seconds: Seconds
    versions: dict[str, str]
    replicates: int = 1
    untrained: tuple[Examined, ...] = ()
    shuffled: tuple[Examined, ...] = ()
    reservations: tuple[str, ...] = ()

    @property
    def verdict(self) -> LayersVerdict:
        """The word of the objects that can tell, if most can; "measured" where they differ. It is no limit.

        Layers are "independent" only if objects that cannot tell do not surely share a part either.
        """
        words = Counter(each.verdict for each in self.objects)
        left_open = words.pop(LayersVerdict.CANNOT_TELL, 0)
        if len(words) > 1:
            return LayersVerdict.MEASURED
        word, count = words.popitem() if words else (LayersVerdict.CANNOT_TELL, 0)
        if (
            word == LayersVerdict.INDEPENDENT
            and self._known is not None
            and self._known.reading != "like independent"
        ):
            return LayersVerdict.CANNOT_TELL
        return word if count > left_open or not left_open else LayersVerdict.CANNOT_TELL

    @property
    def ordered(self) -> tuple[Examined, ...]:
        """Objects whose layers have a real order, at a level of 1 % over all objects."""
        return tuple(each for each in self.objects if each.correlation == DECAYING)

    @property
    def _known(self) -> Known | None:
        """What objects that cannot tell say nevertheless; None where all can tell."""
        level = min(correlations.LEVEL, LEVEL / max(1, len(self.objects)))
        return known(self.objects, self.replicates, level)

    @property
    def headline(self) -> str:
        """In how many objects the order of layers is real, and what they are as a function of depth."""
        counts = Counter(
            wording.ORDERED
            if each.verdict == LayersVerdict.CANNOT_TELL and each in self.ordered
            else wording.LAYERS[each.verdict]
            for each in self.objects
        )
        several = f"{self.replicates} networks, " if self.replicates > 1 else ""
        words = "; ".join(
            f"{said}{self._noise_beside(said)} ({count})" for said, count in counts.most_common()
        )
        count, level = len(self.objects), f"level {100 * LEVEL:g} % over all"
        objects = f"{count} object{'s' * (count != 1)}"
        undecided = sum(each.correlation == UNDECIDED for each in self.objects)
        if self.ordered:
            seen = f"an order over depth in {len(self.ordered)} of {objects} ({level})"
        elif undecided and self.verdict == LayersVerdict.INDEPENDENT:
            seen = f"no order over depth in {count - undecided} of {objects} ({level})"
        elif undecided and (found := self._known) is not None:
            seen = f"{wording.undecided(found)} in {undecided} of {objects} ({level})"
        else:
            seen = (
                f"no order over depth: sizes aside, shuffled layers would look the same ({objects}, {level})"
            )
        return f"{several}{self.model}: {seen}; layers are: {words}."

    def _noise_beside(self, said: str) -> str:
        """Return how much of a layer is noise where that is no small part of a trend; else nothing."""
        if said != wording.LAYERS[LayersVerdict.SMOOTH_TREND]:
            return ""
        beside = [each.noise for each in self.objects if each.verdict == LayersVerdict.SMOOTH_TREND]
        shares = [share for share in beside if share is not None]
        if not shares or max(shares) < NOISY:
            return ""
        ends = dict.fromkeys(f"{share:.2f}" for share in (min(shares), max(shares)))
        return f" beside noise, {' to '.join(ends)} of a layer's square"

    def _facts(self) -> list[tuple[str, str]]:
        told = []
        if (found := self._known) is not None:
            told.append(("known", wording.what_is_known(found)))
            told.append(
                ("to decide", wording.what_would_decide(found, bool(self.untrained or self.shuffled)))
            )
        for number, stream in enumerate(self.streams):
            of = f"stream {number}: " if len(self.streams) > 1 else ""
            depth = len(stream.names)
            outside = np.flatnonzero(stream.differs)
            told.append(
                (
                    "influence",
                    f"{of}{stream.influence[0]:.3g} in the first of {depth} layers, "
                    f"{stream.influence[-1]:.3g}"
                    " in the last; independent layers of one size would have"
                    f" {stream.expected[0]:.3g} and {stream.expected[-1]:.3g}",
                )
            )
            told.append(
                (
                    "",
                    f"the stream's mean square grows {stream.growth:.3g}-fold; independent layers would"
                    f" make it {1 + depth * stream.gain:.3g}-fold",
                )
            )
            named = ", ".join(
                f"{stream.names[place]} ({stream.excess[place]:+.2g})" for place in outside[:SHOWN]
            )
            more = f", and {len(outside) - SHOWN} more" if len(outside) > SHOWN else ""
            told.append(
                ("", f"layers with another influence than such a layer here: {named or 'none'}{more}")
            )
        # One name with a number per kind: bl.* (1), bl.* (2).
        split = {each.name for each in self.objects if re.search(r" \(\d+\)$", each.name)}
        for each in self.objects:
            if each.what != WEIGHTS and not each.name.endswith(", mean"):
                pairs = each.merging.pairs
                cheap = ", ".join(f"{k} and {k + 1} ({pairs[k]:.2f})" for k in each.merging.cheapest(3))
                kind = "" if each.name not in split else " of this kind, counted from 0"
                told.append(("merge", f"{each.full_name}: {cheap}{kind}; 0.50 for independent layers"))
        return told

    def _reservations(self) -> list[str]:
        told = list(self.reservations)
        if self.made_up:
            told.append(
                "The module was run on a batch that was made up. Influence and functions of states are those"
                " on such inputs: pass batch= with real ones."
            )
        if any(not np.isfinite(stream.errors).all() for stream in self.streams):
            told.append("The batch has one row, so influence has no standard error, and no layer is named.")
        names = [*self.left_out.items()]
        told += [f"Not examined: {name} {reason}." for name, reason in names[:SHOWN]]
        if len(names) > SHOWN:
            told.append(f"{len(names) - SHOWN} more are in left_out.")
        return told

    def _table(self) -> Table:
        kinds = {"trained": self.objects, UNTRAINED: self.untrained, SHUFFLED: self.shuffled}
        found = [each for objects in kinds.values() for each in objects]
        networks = [kind for kind, objects in kinds.items() for _ in objects]
        compared = bool(self.untrained or self.shuffled)
        return Table(
            (
                *([Column("network", networks, left=True)] if compared else []),
                Column("object", [each.name for each in found], left=True),
                Column("what", [each.what for each in found], left=True),
                Column("verdict", [str(each.verdict) for each in found], left=True),
                Column("correlation", [each.correlation for each in found], left=True),
                Column("layers", [each.depth for each in found]),
                Column("p (order)", [each.p_value for each in found], ".2g"),
                Column(
                    "H",
                    [each.hurst for each in found],
                    ".2f",
                    interval=(
                        [each.hurst_interval[0] for each in found],
                        [each.hurst_interval[1] for each in found],
                    ),
                ),
                Column("noise", [each.noise for each in found], ".2f"),
                Column("entries", [each.effective_entries for each in found], ".3g"),
            ),
            notes=(
                "H: roughness about the mean, with 95 % intervals; entries: independent entries that would"
                " scatter as these do",
                "",
                *(f"{each.full_name}: {each.reason}." for each in self.objects),
            ),
        )

    @property
    def _size(self) -> tuple[float, float]:
        return (10.0, max(3.5, 1.2 + 0.3 * len(self.objects)))

    def _draw(self, axes: Axes) -> None:
        """Draw Hurst indices of all objects, and influence against that of equal layers."""
        left, *rest = drawing.panels(axes, 2 if self.streams else 1, gap=0.12, rows=len(self.objects))
        places = np.arange(len(self.objects))[::-1]
        for place, each in zip(places, self.objects, strict=True):
            low, high = each.hurst_interval
            left.plot([low, high], [place, place], "-", color=drawing.MEASURED, lw=1.2)
            left.plot([each.hurst], [place], "o", color=drawing.MEASURED, ms=4)
        left.axvline(0.5, color=drawing.PREDICTED, ls="--", lw=0.8)
        left.set_xlim(0.0, 1.0)
        left.set_ylim(-0.7, len(self.objects) - 0.3)
        drawing.label(left, "Hurst index H (0.5: independent layers)", "", [""])
        left.set_yticks([])
        for place, each in zip(places, self.objects, strict=True):
            left.annotate(
                drawing.plain(each.full_name),
                (0.01, place),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize=drawing.points(left, 7),
            )
        named = "measured" if len(self.streams) == 1 else "stream {}"
        for panel in rest:
            for number, stream in enumerate(self.streams):
                colour = drawing.COLOURS[number % len(drawing.COLOURS)]
                layers = np.arange(1, len(stream.names) + 1)
                panel.plot(layers, stream.influence, "o", ms=4, color=colour, label=named.format(number))
                panel.plot(layers, stream.expected, "--", lw=1, color=colour, label="equal layers")
            panel.set_yscale("log")
            drawing.label(panel, "layer", "influence 1 − cos", [""])
            drawing.legend(panel, 8)
