"""Both papers again: their theorems as known cases, a scoreboard of them, their figures.

`cases` holds every network whose limit and order are known, each beside limits that are wrong in one way.
`scoreboard` measures them all. `figures` computes the papers' figures again and checks what they show.

Imports: everything below. Only the command line, `deeplimit.zoo` and the public names read this room.
"""
