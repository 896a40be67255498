"""Lets PyPI's torchvision import beside a CPU build of torch, whose operators it cannot find; goes on PYTHONPATH.

Only torchvision's pure-Python transforms are used here. People on a CPU install torchvision's CPU build instead.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Steps in once, when torchvision is first imported, and finds nothing itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            _skip_unknown_operators()
        return None


def _skip_unknown_operators() -> None:
    import torch

    register = torch.library.register_fake

    def register_fake(operator: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        if isinstance(operator, str) and operator.startswith("torchvision::"):
            return lambda function: function
        return register(operator, *args, **kwargs)

    torch.library.register_fake = register_fake


sys.meta_path.insert(0, _BeforeTorchvision())
