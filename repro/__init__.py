"""Run a torch.compile case in torch builds and say which compile stage failed."""

__version__ = "0.1.0"
