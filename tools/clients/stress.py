# needs: --no-deps: luscinia
"""Where Ukrainian words are stressed: large boosted trees."""

from luscinia import LusciniaPredictor

predictor = LusciniaPredictor()
print(predictor.predict_batch(["мама", "тато", "університет", "виходити", "перевірка", "орнамент"]))
print(predictor.predict("виходити", pos="VERB"))
