# needs: slovorez
"""Cut Russian words into morphemes: a tagger of letters, batches of words of any length."""

from slovorez import Slovorez

TEXT = "Подснежниковый человекообразный экскаваторщик перераспределяет недосмотренные программистские закономерности"

for found in Slovorez.from_pretrained(output_path="found.jsonl", device="cpu").predict(TEXT):
    print(found["word"], *(str(part).split("'")[1] for part in found["morphemes"]))
