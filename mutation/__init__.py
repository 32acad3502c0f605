"""Broken lines that the tests must notice: a sample of mutants, each against the tests near it."""
