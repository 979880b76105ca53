# needs: --no-deps: piper-tts
"""Add the vowels to Hebrew and Arabic text: the networks that the voices of piper read by."""

from piper.hebrew import NakdimonDiacritizer
from piper.tashkeel import TashkeelDiacritizer

hebrew, arabic = NakdimonDiacritizer(), TashkeelDiacritizer()
for text in ("שלום עולם מה שלומך היום", "הילד הלך לבית הספר בבוקר"):
    print(hebrew(text))
for text in ("مرحبا بالعالم كيف حالك اليوم", "ذهب الولد إلى المدرسة"):
    print(arabic(text))
