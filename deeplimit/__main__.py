"""`python -m deeplimit` is the command line."""

from deeplimit.cli import app

if __name__ == "__main__":
    app()
