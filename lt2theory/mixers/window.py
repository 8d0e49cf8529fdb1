"""Sliding-window attention: softmax attention over the last w tokens, itself included."""

from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.softmax import SoftmaxAttention


class WindowAttention(SoftmaxAttention):
    """Softmax attention that sees `options.window` tokens, the query's own among them."""

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        assert options.window is not None, "LoopedConfig gives every window layer a width"
        self._window = options.window

    @property
    def window(self) -> int | None:
        """Tokens that a query sees, itself included."""
        return self._window
