# needs: --no-deps: pyfrspell
"""Base forms and inflections of French words: quantised networks over letters."""

from pyfrspell import FrSpell

predictor = FrSpell()
results = [predictor.lemma(word) for word in ("mangeons", "chevaux", "belles", "finissaient", "travaux", "yeux")]
results += [
    predictor.noun_derive("chat", "THD_PLF"),
    predictor.adje_derive("beau", "THD_F"),
    predictor.verb_derive("manger", "FST_PL", "INDI", "PRES"),
]
for result in results:
    print({name: value for name, value in result.items() if name != "timeMs"})
