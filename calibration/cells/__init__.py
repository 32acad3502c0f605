"""All cells, in the order of the page."""

from __future__ import annotations

from functools import cache

from calibration.cell import Cell
from calibration.cells import (
    deciding,
    defaults,
    gradients,
    growth,
    in_law,
    independent,
    normalised,
    one_network,
    random_networks,
    shrinking,
    smooth,
    solvers,
    trained,
    wrong,
)


@cache
def cells() -> tuple[Cell, ...]:
    """Return every cell once."""
    rooms = (
        deciding,
        independent,
        shrinking,
        smooth,
        random_networks,
        gradients,
        normalised,
        growth,
        in_law,
        trained,
        one_network,
        wrong,
        defaults,
        solvers,
    )
    found = tuple(cell for room in rooms for cell in room.cells())
    groups = list(dict.fromkeys(cell.group for cell in found))
    found = tuple(sorted(found, key=lambda cell: groups.index(cell.group)))
    keys = [cell.key for cell in found]
    if len(set(keys)) < len(keys):
        raise ValueError(f"cells share a name: {sorted({key for key in keys if keys.count(key) > 1})}")
    return found


@cache
def by_key() -> dict[str, Cell]:
    """Return every cell by its key."""
    return {cell.key: cell for cell in cells()}
