"""Which pass, node or kernel makes a result wrong: comparisons with the references, bisection, dumped programs."""
