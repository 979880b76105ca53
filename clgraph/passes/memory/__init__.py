"""Which values share memory, and what has to wait for what."""
