"""Helpers."""

from torch.utils import _pytree

__all__ = ["_pytree"]
