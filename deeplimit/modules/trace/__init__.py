"""What one forward pass of a real module shows: its additions, its residual branches and their parts."""

from deeplimit.modules.trace.branches import Branch, find_branches

__all__ = ["Branch", "find_branches"]
