"""Reading a page: lines found, turned the right way up and read, by three networks on any runtime."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from clgraph.core.frozen import frozen
from clgraph.demo.detection import LONGEST_SIDE, Network, find_lines, likely_cores, reading_order
from clgraph.demo.recognition import batches, crop, decode, directions, is_turned

LEAST_CONFIDENCE = 0.5


@frozen
class Line:
    """A line of text in a picture.

    Attributes:
        corners: x and y of the four corners, clockwise from the upper left.
        confidence: Mean probability of the characters.
        turned: Whether the line stands on its head between the corners.
    """

    text: str
    confidence: float
    corners: tuple[tuple[float, float], ...]
    turned: bool


@dataclass(frozen=True)
class Reader:
    """PP-OCR's networks and what their classes mean.

    Attributes:
        detect: [1][3][rows][columns] to [1][1][rows][columns]; with *images* of bytes [rows][columns][3] and a size.
        classify: [n][3][48][192] to [n][2].
        recognize: [n][3][48][columns] to [n][columns / 8][classes].
        characters: The meaning of every class, as :func:`clgraph.demo.recognition.characters_of` makes it.
        longest: Pixels of the longer side in which lines are searched at once; they are read at full size.
        images: Whether *detect* was compiled with ``preprocess=clgraph.demo.detection.IMAGES``.
    """

    detect: Network
    classify: Network
    recognize: Network
    characters: list[str]
    longest: int = LONGEST_SIDE
    images: bool = False

    def read(self, picture: Image.Image) -> list[Line]:
        """Return the lines of text in *picture* (RGB) in reading order; none where there is no text.

        Raises:
            ClgraphError: A network cannot be compiled or run for the size of the picture or of a line.
        """
        cores = likely_cores(self.detect, picture, self.longest, images=self.images)
        found = find_lines(cores, *picture.size)
        found = [found[i] for i in reading_order(found)]
        crops = [crop(picture, corners) for corners in found]
        turned = [False] * len(crops)
        for part, pixels in directions(crops):
            for i, probabilities in zip(part, self.classify(pixels), strict=True):
                turned[i] = is_turned(probabilities)
        upright = [c.transpose(Image.Transpose.ROTATE_180) if t else c for c, t in zip(crops, turned, strict=True)]
        texts = [("", 0.0)] * len(crops)
        for part, pixels in batches(upright):
            for i, probabilities in zip(part, self.recognize(pixels), strict=True):
                texts[i] = decode(probabilities, self.characters)
        return [
            Line(text.strip(), confidence, tuple((float(x), float(y)) for x, y in corners), t)
            for (text, confidence), corners, t in zip(texts, found, turned, strict=True)
            if text.strip() and confidence >= LEAST_CONFIDENCE
        ]
