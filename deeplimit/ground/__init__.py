"""What every room stands on: refusals in words, random streams, files that appear whole, blocks of work,
axes.
"""
