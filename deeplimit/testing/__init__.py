"""For test suites: assertions whose failure message is the diagnosis.

`check_law`, `check_recursion`, `check_limit` and `check_report` check your class against the contract of the
library's classes, and name what it breaks. `pytest_plugin` is the fixture `deeplimit_check`.

The names stand once, in `__init__.pyi`, and are loaded when first used: pytest imports the plugin in every
run, also in those that never ask for it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
