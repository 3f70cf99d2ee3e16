"""The part of torch._dynamo that tells what a compile is doing."""

from torch._dynamo import config, utils

__all__ = ["config", "utils"]
