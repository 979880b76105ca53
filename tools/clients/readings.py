# needs: pyopenjtalk-plus[onnxruntime]
"""Read Japanese aloud: a classifier tells how a word is read that has two readings."""

import pyopenjtalk

for text in ("何の話ですか", "何を食べますか", "何人いますか", "それは何と言うのですか", "何千何百"):
    print(text, pyopenjtalk.g2p(text), pyopenjtalk.g2p(text, kana=True))
