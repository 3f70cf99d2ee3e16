"""Run a torch.compile case in torch builds, each in its own environment, and say which stage failed."""

__version__ = "0.1.0"
