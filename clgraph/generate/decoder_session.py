"""Runs on new tokens: at once where a session has caches, in chunks where values are all that it carries.

One by one where the model takes no more at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clgraph.generate.feeding import Feeding
from clgraph.graph.primitive import Array
from clgraph.model.model import Model
from clgraph.model.state.chunking import CHUNKS


class DecoderSession:
    """Runs a decoder whose caches or carried values are kept in a session.

    Attributes:
        session: The state behind the tokens that were read so far.
    """

    def __init__(self, model: Model, feeding: Feeding) -> None:
        """Start texts."""
        self.session, self._feeding = model.session(feeding.carried), feeding

    def run(self, feeds: Mapping[str, Array], *, last: bool) -> Array:
        """Return the logits of the new tokens in *feeds*, or of the *last* one alone. Texts stay where that raises.

        Without caches, tokens come in chunks of a few sizes, none of which has rows behind its tokens; logits are the
        last chunk's.
        """
        feeding, logits = self._feeding, self._feeding.logits
        alone = feeding.single and feeds[feeding.ids].shape[1] > 1
        if feeding.caches and not alone:
            found: Array = self.session.run(feeds, outputs=[logits], last=last)[logits]
            return found
        ahead = self.session.fork()
        for chunk in chunks(feeding, feeds, (1,) if feeding.single else CHUNKS[::-1]):
            found = ahead.run(chunk, outputs=[logits])[logits]
        self.session = ahead
        return found


def chunks(feeding: Feeding, feeds: Mapping[str, Array], sizes: Sequence[int]) -> Iterator[dict[str, Array]]:
    """Yield *feeds* of the next tokens, as many as the largest of *sizes*, which fall to 1, that there still are."""
    start, count = 0, feeds[feeding.ids].shape[1]
    for size in sizes:
        while count - start >= size:
            behind = count - start - size
            axes = {name: slice(start, start + size) for name in feeds}
            if feeding.mask is not None:
                total = feeds[feeding.mask].shape[1] - behind
                axes[feeding.mask] = slice(total - size if feeding.mask_of_new else 0, total)
            yield {name: array[..., axes[name]] for name, array in feeds.items()}
            start += size
