# needs: arabic-name-romanizer
"""Romanise names: an encoder, and a decoder that runs once a letter over growing prefixes."""

from arabic_name_romanizer import Transliterator

romaniser = Transliterator()
for name in ("محمد العظماوي", "فاطمة الزهراء بنت قحطبة", "عبد الرزاق الشمريبي"):
    for found in romaniser.transliterate(name, top_k=3):
        print(found.text, f"{found.score:.4f}")
