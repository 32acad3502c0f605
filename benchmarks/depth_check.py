"""A depth check of a transformer of tens of millions of parameters, beside what it cannot do without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

import torch
from torch import nn

import deeplimit as dl
from benchmarks.optional import optional
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload, timed_in_turn
from deeplimit.common.global_state import seeded


def transformer(width: int, depth: int) -> nn.Module:
    """Return a pre-norm encoder of torch's own with embeddings of 8192 tokens."""
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, norm_first=True, batch_first=True, dropout=0.0
    )
    encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(8192, width), encoder, nn.Linear(width, 8192))


def check(*, quick: bool, repeats: int) -> Workload:
    """Time `check_depth` at four depths, and what it rests on: building the modules, one forward and one
    backward of each.
    """
    width, depths = (256, (2, 4, 6, 8)) if quick else (512, (4, 8, 16, 24))
    batch = torch.randint(0, 8192, (2, 64), generator=torch.Generator().manual_seed(0))

    def build_and_train() -> int:
        parameters = 0
        for depth in depths:
            with seeded(0):
                model = transformer(width, depth)
            model(batch).sum().backward()
            parameters = sum(parameter.numel() for parameter in model.parameters())
        return parameters

    (ours, report), (floor, parameters) = timed_in_turn(
        [lambda: dl.check_depth(partial(transformer, width), depths, batch=batch), build_and_train], repeats
    )
    rows = (
        Row("deeplimit.check_depth", ours, f"{len(report.branches)} kinds of branches found", role=OURS),
        Row("floor: building, one forward and one backward at each depth", floor, role=FLOOR),
    )
    setting = (
        f"pre-norm encoder, width {width}, depths {', '.join(map(str, depths))}, up to {parameters / 1e6:.0f}"
        " M parameters"
    )
    targets = (Target("seconds of the check", ours, at_most=60.0),)
    return Workload("check", setting, rows, {"width": width, "depths": depths}, targets)


GIB = 2**30
SIZES = {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "vocab_size": 32000}
SMALL = {"hidden_size": 256, "intermediate_size": 688, "num_attention_heads": 4, "vocab_size": 2000}
# A process starts with its parent's peak in ru_maxrss, which would hide all that is below it; VmHWM begins at
# nought.
PROGRAM = """
import json, re, resource, sys, time
from pathlib import Path
import torch
sys.modules["torchvision"] = None  # a text model needs none, and one built for CUDA does not load without it
from transformers import LlamaConfig, LlamaForCausalLM
import deeplimit as dl
sizes, depths, scaled, device = json.loads(sys.argv[1])

def llama(depth):
    with torch.device(device):
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=depth, **sizes))
    with torch.no_grad():
        for layer in model.model.layers:
            for projection in scaled:
                layer.get_submodule(projection).weight.mul_((2 * depth) ** -0.5)
    return model

start, work = time.perf_counter(), time.process_time()
report = dl.check_depth(llama, depths, expected="gpt-2")
seconds, work = time.perf_counter() - start, time.process_time() - work
status = Path("/proc/self/status")
found = re.search(r"VmHWM:\\s*(\\d+)", status.read_text()) if status.exists() else None
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 2**10)
parameters = sum(parameter.numel() for parameter in llama(depths[-1]).parameters()) if device == "meta" else 0
print(json.dumps([seconds, work, int(found[1]) * 2**10 if found else peak, parameters, report.verdict]))
"""


def large(*, quick: bool, repeats: int) -> Workload:
    """Check a LLaMA of 7 billion parameters, built on the meta device, in a process of its own.

    Its output projections follow GPT-2's rule. Beside it stand a small one built in memory, which must have
    the same verdict, and a large one without the rule in its MLPs, which must not pass.
    """
    both, one = ("self_attn.o_proj", "mlp.down_proj"), ("self_attn.o_proj",)
    sizes, depths = (SMALL if quick else SIZES), (2, 8, 32)
    module, missing = optional("transformers", "pip install 'deeplimit[models]'")
    if module is None:
        return Workload("large", "a LLaMA on the meta device", (), skipped=(missing,))
    cases = {
        "deeplimit.check_depth": (sizes, depths, both, "meta"),
        "the same at width 256, built in memory": (SMALL, depths, both, "cpu"),
        "depths 2 and 8, MLPs unscaled": (sizes, depths[:2], one, "meta"),
    }
    found = {who: _in_its_own_process(*case) for who, case in cases.items()}
    rows = tuple(
        Row(who, seconds, f"{work:.0f} CPU seconds, {peak / GIB:.1f} GiB at the peak: {verdict}", role=OURS)
        for who, (seconds, work, peak, _, verdict) in found.items()
    )
    (_, _, peak, parameters, right), (*_, small), (*_, wrong) = found.values()
    settings = {**sizes, "depths": depths}
    words = f"LLaMA of {parameters / 1e9:.2f} billion parameters on the meta device, depths 2, 8, 32"
    verdicts = float(right == small == "as expected") + float(wrong == "not as expected")
    targets = (
        Target("GB at the peak", peak / 1e9, at_most=8.0),
        Target("right verdicts of 2", verdicts, at_least=2.0),
    )
    return Workload("large", words, rows, settings, targets)


def _in_its_own_process(*case: object) -> tuple[float, float, int, int, str]:
    """Return seconds, CPU seconds, bytes at the peak, parameters and the verdict of a check."""
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(case)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    seconds, work, peak, parameters, verdict = json.loads(done.stdout.splitlines()[-1])
    return seconds, work, peak, parameters, verdict
