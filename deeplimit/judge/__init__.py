"""What a comparison says: how fast a network approaches its limit, and whether it is the right one.

`convergence` compares path by path: `pairing` brings network and limit together, `estimates` and `assessment`
turn errors into an order with an interval, `verdict` decides, `wording` and `report` tell. `in_law` compares
laws: independent draws, tests per depth, an extrapolation.

Imports: simulation, theory, equations, networks, driving, statistics, common. Not signal.
"""
