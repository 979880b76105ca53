# needs: magika
"""Tell what kind of content bytes are: one-hot bytes, convolutions over a sequence."""

from magika import Magika

CONTENTS = (
    b"import os\ndef f(x):\n    return x + 1\nclass A:\n    pass\n" * 3,
    b'#include <stdio.h>\nint main(void) { printf("hi"); return 0; }\n' * 3,
    b'{"a": [1, 2, 3], "b": {"c": null}}\n' * 4,
    b"\x89PNG\r\n\x1a\n" + bytes(200),
)

for content in CONTENTS:
    found = Magika().identify_bytes(content)
    print(f"{found.output.label} ({found.score:.2f})")
