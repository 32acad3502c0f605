"""How many files and functions of the library one comparison enters: what has to be read to follow a call.

python -m benchmarks.entered            # the numbers
python -m benchmarks.entered --list     # every function, with the number of calls

Functions are those with a name: a comprehension belongs to the function around it. The call is made twice,
and the second one is counted, so that imports and caches are not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import deeplimit as dl

ROOT = Path(dl.__file__).parent


def comparison() -> object:
    """Compare a small network with its limit on one thread, since a profile sees its own thread alone."""
    return dl.compare(dl.res1(8, "tanh"), depths=[16, 32, 64], paths=64, workers=1)


def entered(call: Callable[[], object]) -> Counter[tuple[str, str]]:
    """Return how often each named function of the library, with its file, is called by a second `call`."""
    call()
    calls: Counter[tuple[str, str]] = Counter()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            calls[str(path.relative_to(ROOT)), frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return Counter({key: count for key, count in calls.items() if not key[1].endswith(">")})


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="every function with the number of its calls")
    listed = parser.parse_args().list
    calls = entered(comparison)
    print(f"{len({file for file, _ in calls})} files, {len(calls)} functions")
    if listed:
        for (file, name), count in sorted(calls.items()):
            print(f"{file}  {name}  {count}")


if __name__ == "__main__":
    main()
