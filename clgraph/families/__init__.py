"""Programs for families of shapes: one compiled by all passes, from which the others are bound."""
