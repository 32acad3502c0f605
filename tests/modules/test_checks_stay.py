"""Reports on torch modules are what they were: findings, factors, layers, exponents, figures, pictures."""

import functools

import kept_numbers
import pytest
import torch
import transfer_models as models
from depth_faults import DEPTH_FAULTS
from depth_rights import DEPTH_RIGHTS
from stacks import BatchNormed, Res1, Transformer, images, make, tokens, vectors
from torch import nn

import deeplimit as dl

same = functools.partial(kept_numbers.same_report, "modules", tolerance=2e-3)
DEPTHS = (2, 4, 8)
ROWS = {row.name: row for row in models.ROWS}


OWN = ("earlier states", "momentum", "no skip", "a factor on the sum", "no norm")
OURS = [row for row in DEPTH_FAULTS if row.kind in OWN]
THEIRS = [
    next(row for row in DEPTH_FAULTS if row.kind == kind)
    for kind in dict.fromkeys(row.kind for row in DEPTH_FAULTS)
    if kind not in OWN
][::2]


@pytest.mark.parametrize("fault", OURS, ids=str)
@pytest.mark.usefixtures("one_thread")
def test_what_is_said_of_faulty_chains_stays(fault):
    same(str(fault), dl.check_depth(fault.factory, DEPTHS, batch=fault.batch, expected=fault.expected))


@pytest.mark.thirdparty
@pytest.mark.usefixtures("one_thread", "model_libraries")
@pytest.mark.parametrize("fault", THEIRS, ids=str)
def test_what_is_said_of_faults_in_other_libraries_stays(fault):
    report = dl.check_depth(fault.factory, (2, 4, 6), batch=fault.batch, expected=fault.expected)
    same(str(fault), report, with_picture=False)


@pytest.mark.thirdparty
@pytest.mark.usefixtures("one_thread", "model_libraries")
@pytest.mark.parametrize("right", DEPTH_RIGHTS[5::50] + DEPTH_RIGHTS[-3:], ids=str)
def test_what_is_said_of_right_networks_stays(right):
    same(str(right), dl.check_depth(right.factory, DEPTHS, batch=right.batch, expected=right.expected))


def squared(output):
    return output.square().mean()


def res1(depth, **how):
    return Res1(depth, width=8, **how)


class Parallel(nn.Module):
    """Two branches that are added before they join the stream; a third one behind each, of low rank."""

    def __init__(self, depth, scale=0.5, adapted=False):
        super().__init__()
        self.first = nn.Linear(6, 8)
        made = ("one", "two", "down", "up") if adapted else ("one", "two")
        shapes = {"one": (8, 8), "two": (8, 8), "down": (8, 2), "up": (2, 8)}
        self.blocks = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(*shapes[name], bias=False) for name in made}) for _ in range(depth)
        )
        self.scale, self.adapted = scale, adapted

    def forward(self, x):
        h = self.first(x)
        for block in self.blocks:
            y = torch.tanh(h)
            both = block["one"](y) + (block["up"](block["down"](y)) if self.adapted else block["two"](y))
            h = h + self.scale * both
        return h


CHECKS = {
    "parallel": lambda: dl.check_depth(Parallel, DEPTHS, batch=vectors(), expected=0.5),
    "adapted": lambda: dl.check_depth(functools.partial(Parallel, adapted=True), DEPTHS, batch=vectors()),
    "half": lambda: dl.check_depth(res1, (2, 4, 8, 16), batch=vectors(), expected=0.5, loss=squared),
    "measured": lambda: dl.check_depth(
        functools.partial(res1, exponent=1.0), DEPTHS, batch=vectors(), confidence=0.8
    ),
    "copies": lambda: dl.check_depth(
        functools.partial(res1, tied=True), DEPTHS, batch=vectors(), expected=1.0
    ),
    "zero": lambda: dl.check_depth(
        functools.partial(res1, gain=0.0), DEPTHS, batch=vectors(), expected="rezero"
    ),
    "far": lambda: dl.check_depth(
        functools.partial(res1, exponent=0.0), DEPTHS, batch=vectors(), expected=0.5, tolerance=0.2
    ),
    "batch norm": lambda: dl.check_depth(BatchNormed, DEPTHS, batch=images(), expected=0.5),
    "tokens": lambda: dl.check_depth(
        functools.partial(Transformer, width=8), DEPTHS, batch=tokens(), expected="completep"
    ),
    "some": lambda: dl.check_depth(
        functools.partial(Transformer, width=8), DEPTHS, batch=tokens(), blocks="blocks.*", expected=0.5
    ),
    "probe": lambda: dl.probe(make(Transformer, depth=3, width=8), tokens(), expected="mitchell"),
    "probe of a stack": lambda: dl.probe(make(Res1, depth=4, width=8), vectors()),
}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.usefixtures("one_thread")
def test_checks_of_depth_stay(name):
    same(name, CHECKS[name]())


def trained(name, *, width=8, change=None, depths=DEPTHS, **options):
    row = ROWS[name]

    def optimizer(model, depth):
        groups = models.groups(model, depth, row)
        if change is not None:
            change(groups, depth)
        return row.optimizer(groups)

    settings = {"seeds": 2, "steps": (1, 2), "expected": row.claims} | options
    return dl.check_training(
        models.factory(row, width=width), depths, optimizer=optimizer, batch=models.inputs(width), **settings
    )


def decayed(groups, depth):
    groups[0]["weight_decay"] = 0.1 * depth


def constant_epsilon(groups, depth):
    for group in groups:
        group["eps"] = 1e-8


def faster(groups, depth):
    groups[1]["lr"] = 10.0 * groups[1]["lr"]


class Wide(models.Stack):
    def __init__(self, depth, width):
        super().__init__(depth, 1.0, width=width)
        self.first = nn.Linear(8, width, bias=False)

    def forward(self, x):
        return super().forward(self.first(x))


TRAINED = {
    **{
        name: functools.partial(trained, name)
        for name in ("SP, lr const", "Depth-muP", "a = 1, SGD lr const")
    },
    "decay": lambda: trained("AdamW, Depth-muP", change=decayed),
    "epsilon": lambda: trained("CompleteP", change=constant_epsilon),
    "first and last": lambda: trained("Depth-muP", change=faster, steps=(1,)),
    "no rule": lambda: trained("multiplier only", expected=None, loss=squared),
    "two depths": lambda: trained("CompleteP", depths=(2, 4), confidence=0.8, tolerance=0.25, seed=3),
    "rates": lambda: trained("SP, lr const", steps=(3,), rate_factors=[1.0, 4.0, 16.0, 64.0]),
    "widths": lambda: dl.check_training(
        Wide,
        (2, 4),
        optimizer=lambda model, depth, width: torch.optim.Adam(
            model.parameters(), lr=1e-3 * 8 / width, eps=1e-12
        ),
        batch=models.inputs(8),
        expected="completep",
        widths=(8, 16, 32),
        steps=(1,),
        seeds=2,
    ),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.usefixtures("one_thread")
def test_checks_of_training_stay(name):
    same(f"trained: {name}", TRAINED[name](), with_picture=len(name) < 10)


class Plain(nn.Module):
    """A residual perceptron that explodes, with one branch per layer or two."""

    def __init__(self, depth, gain=2.0, skip=1.0, tied=False, norm=False):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(*([nn.LayerNorm(8)] if norm else []), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
            for _ in range(1 if tied else depth)
        )
        self.depth, self.gain, self.skip = depth, gain, skip

    def forward(self, x):
        h = self.first(x)
        for k in range(self.depth):
            h = self.skip * h + self.gain * self.blocks[k % len(self.blocks)](h)
        return self.last(h)


RECOMMENDED = {
    "plain": lambda: dl.recommend(Plain, 9, batch=vectors(), depths=DEPTHS),
    "copies": lambda: dl.recommend(functools.partial(Plain, tied=True), 9, batch=vectors(), depths=DEPTHS),
    "no skip": lambda: dl.recommend(
        functools.partial(Plain, skip=0.5, norm=True), 9, batch=vectors(), depths=DEPTHS
    ),
    "scaled": lambda: dl.recommend(res1, 9, exponent=1.0, batch=vectors(), depths=DEPTHS),
}


@pytest.mark.parametrize("name", RECOMMENDED)
@pytest.mark.usefixtures("one_thread")
def test_recommended_code_stays(name):
    report = RECOMMENDED[name]()
    same(f"recommended: {name}", report)
    kept_numbers.check("modules", f"code: {name}", report.code)


@pytest.mark.parametrize("kind", ["stack", "transformer", "images"])
def test_branches_that_are_found_stay(kind):
    model, batch = {
        "stack": (make(Res1, depth=3, width=8), vectors()),
        "transformer": (make(Transformer, depth=2, width=8), tokens()),
        "images": (make(BatchNormed, depth=2), images()),
    }[kind]
    found = [
        {name: value for name, value in vars(branch).items() if isinstance(value, (str, int, float, tuple))}
        for branch in dl.find_branches(model, batch)
    ]
    kept_numbers.check("modules", f"branches: {kind}", found, 1e-4)
    kept_numbers.check("modules", f"scalars: {kind}", dl.branch_scalars(model, batch), 1e-4)
