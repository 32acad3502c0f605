"""Reports that several tests read are measured once per process."""

_KNOWN = {}


def measured(function, *arguments, **options):
    """Return what the function returns; the same call with the same seed is made once.

    Calls are told apart by the text of their arguments, so these must be numbers, texts, sequences, or
    specifications of the library, not functions. Reports and tensors are shared: do not change them.
    """
    key = (function.__module__, function.__qualname__, repr(arguments), repr(sorted(options.items())))
    if " at 0x" in str(key):
        raise TypeError(f"an argument has no text of its own: {key}")
    if key not in _KNOWN:
        _KNOWN[key] = function(*arguments, **options)
    return _KNOWN[key]
