"""`python -m deeplimit` is the command line."""

from deeplimit.cli import app

app()
