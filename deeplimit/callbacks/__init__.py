"""The depth check where people train: `transformers` and `lightning` hold a callback each.

Neither library is needed by deeplimit. Each module imports its library when it is imported, and nothing here
imports the modules. `settings` is what both callbacks do.
"""
