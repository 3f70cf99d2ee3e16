"""Modules without parameters."""


class Module:
    """Calls its `forward`."""

    def __call__(self, *args):
        """Call it."""
        return self.forward(*args)

    def parameters(self):
        """There are none."""
        return iter(())

    def named_parameters(self):
        """There are none."""
        return iter(())

    def zero_grad(self, set_to_none=True):
        """There are no gradients."""
