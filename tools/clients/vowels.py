# needs: text2tashkeel
"""Add the vowels to Arabic text: recurrent networks of 8 bits, alone and as an ensemble."""

from text2tashkeel import Diacritizer, available_models

TEXTS = ("بسم الله الرحمن الرحيم", "ذهب الولد إلى المدرسة صباحا", "كتب الطالب الدرس في الكتاب الجديد")
for name in sorted(available_models(bundled_only=True)):
    diacritizer = Diacritizer(name)
    print(name, *map(diacritizer.diacritize, TEXTS), sep=" | ")
