"""`python -m deeplimit` is the command line."""

from deeplimit.cli import command_line

if __name__ == "__main__":
    command_line()
